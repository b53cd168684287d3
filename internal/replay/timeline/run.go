package timeline

import (
	"context"
	"fmt"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

// Timeline makes rows of events that are given in the order of the journal.
type Timeline struct {
	reader *reader
	facts  *order[fact]
	linker *linker
	rows   *order[Row]
	merged *merger
	last   int64 // time of the row given last
}

// New makes a timeline that hands over its rows in order of time. A row that was stored too late for that says so.
func New(filter Filter, give func(Row) error) *Timeline {
	t := &Timeline{}
	t.merged = &merger{give: func(r Row) error {
		if !filter.row(&r) {
			return nil
		}
		if r.TimeNs < t.last {
			r.Text += fmt.Sprintf(" (told %s later)", short(time.Duration(r.SeenNs-r.TimeNs)))
		}
		t.last = max(t.last, r.TimeNs)
		return give(r)
	}}
	t.rows = &order[Row]{window: (window + quiet).Nanoseconds(), give: t.merged.add}
	t.linker = newLinker(&filter, func(r Row) { t.rows.add(r.TimeNs, r) })
	t.facts = &order[fact]{window: window.Nanoseconds(), give: func(f fact) error {
		t.linker.take(f)
		return nil
	}}
	t.reader = newReader(func(f fact) { t.facts.add(f.TimeNs, f) })
	return t
}

// Add takes the next event. It belongs to the timeline afterwards.
func (t *Timeline) Add(seq uint64, e *eventpb.Event) error {
	seen := e.SeenNs
	t.reader.read(seq, e)
	if err := t.facts.reach(seen); err != nil {
		return err
	}
	return t.rows.reach(seen)
}

// End gives the last rows, and the figures.
func (t *Timeline) End() ([]Convergence, error) {
	const all = 1<<63 - 1
	if err := t.facts.upTo(all); err != nil {
		return nil, err
	}
	t.linker.endRuns(true)
	if err := t.rows.upTo(all); err != nil {
		return nil, err
	}
	return t.linker.convergence(), t.merged.flush()
}

// Of makes the timeline of a tape.
func Of(ctx context.Context, tape *journal.Tape, filter Filter, give func(Row) error) ([]Convergence, error) {
	t := New(filter, give)
	err := tape.Read(ctx, 0, 0, func(r journal.Record) error {
		e := &eventpb.Event{}
		if err := proto.Unmarshal(r.Data, e); err != nil {
			return fmt.Errorf("decode event at seq %d: %w", r.Seq, err)
		}
		return t.Add(r.Seq, e)
	})
	if err != nil {
		return nil, err
	}
	return t.End()
}
