package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"google.golang.org/protobuf/encoding/protowire"
)

// SourceGap is an interval in which one source did not see all, as its Gap event says.
type SourceGap struct {
	Seq    uint64 // of the event
	Source string
	*eventpb.Gap
}

// String is the gap as a sentence: who did not see, between when and when, why.
func (g SourceGap) String() string {
	reason := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(g.Reason.String(), "GAP_REASON_")), "_", " ")
	text := fmt.Sprintf("%s did not see all between %s and %s (%s", g.Source, millis(g.FromNs), millis(g.ToNs), reason)
	if g.Count > 0 {
		text += fmt.Sprintf(", %d lost", g.Count)
	}
	if g.Detail != "" {
		text += ": " + g.Detail
	}
	return text + fmt.Sprintf(") [seq:%d]", g.Seq)
}

// GapsAt are the gaps that the position lies in; then is the state there. A gap is told of when it is over, so they
// stand behind the position on the tape; nothing is read when no source tells of one there.
func (s *Session) GapsAt(ctx context.Context, at Position, then *projections.State) ([]SourceGap, error) {
	end, err := s.State(ctx, Moment{})
	if err != nil {
		return nil, err
	}
	left := uint64(0)
	for name, src := range end.Sources {
		left += src.Gaps
		if before := then.Sources[name]; before != nil {
			left -= before.Gaps
		}
	}
	if left == 0 {
		return nil, nil
	}
	var gaps []SourceGap
	err = s.Tape.Read(ctx, at.Seq+1, ^uint64(0), func(r journal.Record) error {
		if !hasField(r.Data, gapField) {
			return nil
		}
		e, err := decode(r)
		if err != nil {
			return err
		}
		if g := e.GetGap(); g.FromNs <= at.Ns && at.Ns <= g.ToNs {
			gaps = append(gaps, SourceGap{r.Seq, e.Source, g})
		}
		if left--; left == 0 {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return gaps, err
}

// Unseen says, a sentence each, what an answer for the position may lack: the gaps that it lies in, and the sources
// that were down or had not looked yet. With an error it says what it could find out.
func (s *Session) Unseen(ctx context.Context, at Position, then *projections.State) ([]string, error) {
	gaps, err := s.GapsAt(ctx, at, then)
	var notes []string
	for _, g := range gaps {
		notes = append(notes, g.String())
	}
	var starting []string
	for _, name := range slices.Sorted(maps.Keys(then.Sources)) {
		switch src := then.Sources[name]; src.State {
		case eventpb.SourceState_SOURCE_STATE_STARTING:
			starting = append(starting, name)
		case eventpb.SourceState_SOURCE_STATE_DOWN:
			notes = append(notes, fmt.Sprintf("%s was down since %s: %s", name, millis(src.SinceNs), src.Error))
		}
	}
	if len(starting) > 0 {
		notes = append(notes, "not yet read as a whole since the recorder started: "+strings.Join(starting, ", "))
	}
	return notes, err
}

// millis shows Unix nanoseconds as RFC 3339 in UTC, to the millisecond.
func millis(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z") }

// gapField is the number of Event's gap.
const gapField = 18

// hasField says that a message has a field, without decoding the others.
func hasField(b []byte, field protowire.Number) bool {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		if number == field {
			return true
		}
		m := protowire.ConsumeFieldValue(number, kind, b[n:])
		if m < 0 {
			return false
		}
		b = b[n+m:]
	}
	return false
}
