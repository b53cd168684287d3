package facts

import (
	"context"
	"errors"
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

// Query says which facts of a session are wanted.
type Query struct {
	From, To uint64 // positions, both included; a To of 0 is the last
	Filter   Filter
	First    int // at most so many, from the beginning; 0 is all
	Last     int // at most so many, from the end; 0 is all
}

var errEnough = errors.New("enough")

// Stream calls fn with each fact that the query wants, in the tape's order, and with a Book of what was known then.
// It holds one frame of the tape at a time; with Last, that many facts and their events.
func Stream(ctx context.Context, in journal.Reader, q Query, fn func(*Fact, *Book) error) error {
	if q.Filter.NeedsTargets() {
		err := each(ctx, in, 0, 0, func(_ uint64, e *eventpb.Event) error { q.Filter.Learn(e); return nil })
		if err != nil {
			return err
		}
	}
	book, n := NewBook(), 0
	last := &tail{most: q.Last}
	err := each(ctx, in, 0, q.To, func(seq uint64, e *eventpb.Event) error {
		book.Add(e)
		if seq < q.From || !q.Filter.MayMatch(e.Source, events.KindOf(e)) {
			return nil
		}
		return Each(seq, e, func(f *Fact) error {
			switch {
			case !q.Filter.Match(f):
				return nil
			case q.Last > 0:
				last.add(f)
				return nil
			}
			if n++; q.First > 0 && n > q.First {
				return errEnough
			}
			return fn(f, book)
		})
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return last.each(func(f *Fact) error { return fn(f, book) })
}

func each(ctx context.Context, in journal.Reader, from, to uint64, fn func(uint64, *eventpb.Event) error) error {
	return in.Read(ctx, from, to, func(r journal.Record) error {
		e := &eventpb.Event{}
		if err := proto.Unmarshal(r.Data, e); err != nil {
			return fmt.Errorf("decode event at seq %d: %w", r.Seq, err)
		}
		return fn(r.Seq, e)
	})
}

// tail keeps the last facts of a stream.
type tail struct {
	most int
	ring []*Fact
	next int
}

func (t *tail) add(f *Fact) {
	if len(t.ring) < t.most {
		t.ring = append(t.ring, f)
		return
	}
	t.ring[t.next] = f
	t.next = (t.next + 1) % t.most
}

func (t *tail) each(fn func(*Fact) error) error {
	for i := range t.ring {
		if err := fn(t.ring[(t.next+i)%len(t.ring)]); err != nil {
			return err
		}
	}
	return nil
}
