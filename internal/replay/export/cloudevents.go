package export

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/replay/facts"
)

// cloudEvent is one event in CloudEvents 1.0's JSON format, with the extensions sequence and recordedtime.
type cloudEvent struct {
	SpecVersion  string            `json:"specversion"`
	ID           string            `json:"id"`
	Source       string            `json:"source"`
	Type         string            `json:"type"`
	Subject      string            `json:"subject,omitempty"`
	Time         string            `json:"time"`
	RecordedTime string            `json:"recordedtime"`
	Sequence     string            `json:"sequence"`
	ContentType  string            `json:"datacontenttype"`
	Data         []json.RawMessage `json:"data"`
}

// cloudType is what the type begins with; the event's kind follows.
const cloudType = "io.tapedeck.events.v1."

// CloudEvents writes the events that have facts which the query takes, a line each, and returns how many. The data of
// an event is the list of those facts, as `replay events -o jsonl` prints them.
func CloudEvents(ctx context.Context, w io.Writer, in journal.Reader, q facts.Query) (int, error) {
	buffered := bufio.NewWriter(w)
	c := &cloudWriter{out: json.NewEncoder(buffered)}
	c.out.SetEscapeHTML(false)
	if err := facts.Stream(ctx, in, q, c.add); err != nil {
		return c.n, err
	}
	if err := c.flush(); err != nil {
		return c.n, err
	}
	return c.n, buffered.Flush()
}

// cloudWriter gathers the facts of one event.
type cloudWriter struct {
	out  *json.Encoder
	n    int
	seq  uint64
	next cloudEvent
}

func (c *cloudWriter) add(f *facts.Fact, _ *facts.Book) error {
	if f.Seq != c.seq {
		if err := c.flush(); err != nil {
			return err
		}
		c.begin(f)
	}
	if f.Subject() != c.next.Subject {
		c.next.Subject = f.Type // of many
	}
	data, err := f.JSON()
	if err != nil {
		return err
	}
	c.next.Data = append(c.next.Data, data)
	return nil
}

func (c *cloudWriter) begin(f *facts.Fact) {
	c.seq = f.Seq
	c.next = cloudEvent{
		SpecVersion: "1.0", ID: f.EventID, Source: cloudSource(f), Type: cloudType + f.Kind, Subject: f.Subject(),
		Time: facts.Stamp(f.EventNs()), RecordedTime: facts.Stamp(f.SeenNs), Sequence: fmt.Sprintf("%020d", f.Seq),
		ContentType: "application/json",
	}
}

// cloudSource names the node and the source; with the id it is unique in a session.
func cloudSource(f *facts.Fact) string {
	return "/tapedeck/" + url.PathEscape(f.Node) + "/" + url.PathEscape(f.Source)
}

func (c *cloudWriter) flush() error {
	if c.next.Data == nil {
		return nil
	}
	c.n++
	err := c.out.Encode(c.next)
	c.next = cloudEvent{}
	return err
}
