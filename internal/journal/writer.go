package journal

import (
	"context"
	"log/slog"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// stream is what the writer needs of a store.
type stream interface {
	// publish stores items at base+1 … and returns how many, from the first on, are acknowledged.
	publish(ctx context.Context, base uint64, items []item) (int, error)
	last(ctx context.Context) (uint64, error)
}

// writer is the one goroutine that writes. It alone knows the next position.
type writer struct {
	stream  stream
	base    uint64 // the last acknowledged position
	pending []pending
	queue   <-chan *request
	closing <-chan struct{}
	log     *slog.Logger
	clock   *clock

	tryDisk   func() error                          // nil when it takes writes
	reopen    func() (stream, error)                // after a write error
	stored    func([]Record)                        // tells readers
	regressed func(last uint64)                     // tells readers that the stream lost what was after last
	troubled  func(error)                           // tells readers why events cannot be stored; nil when they can again
	gap       func(again bool, g *eventpb.Gap) item // ends now; again: under the last one's id

	trouble *trouble // nil while writing works
}

type pending struct {
	item
	req *request // nil for the writer's own gap
}

// loop runs until closing and then stores what is queued; ctx cuts even that short.
func (w *writer) loop(ctx context.Context) {
	for {
		if w.write(ctx) != nil {
			return
		}
		select {
		case r := <-w.queue:
			w.sayStep()
			w.take(r)
		case <-w.closing:
			if !w.gather() {
				return
			}
			continue
		case <-ctx.Done():
			return
		}
		w.gather()
	}
}

// gather takes what else is queued, up to one window, so that it shares one wait and one sync.
func (w *writer) gather() bool {
	for len(w.pending) < windowItems {
		select {
		case r := <-w.queue:
			w.take(r)
		default:
			return len(w.pending) > 0
		}
	}
	return true
}

func (w *writer) take(r *request) {
	for _, it := range r.items {
		w.pending = append(w.pending, pending{it, r})
	}
	r.items = nil
}

// write stores all that is pending, in order, however long it takes. Its error is the context's.
func (w *writer) write(ctx context.Context) error {
	for len(w.pending) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := w.stream.publish(ctx, w.base, w.window())
		w.acknowledged(n)
		switch {
		case err == nil:
			w.recovered()
		case err == errDuplicate:
			if err := w.skipDuplicate(ctx); err != nil {
				return err
			}
		default:
			if err := w.recover(ctx, err); err != nil {
				return err
			}
		}
	}
	w.pending = nil // let a large burst go
	return nil
}

// window is what is published next: the first of what is pending.
func (w *writer) window() []item {
	var items []item
	size := 0
	for _, p := range w.pending {
		if len(items) == windowItems || len(items) > 0 && size+len(p.data) > windowBytes {
			break
		}
		items = append(items, p.item)
		size += len(p.data)
	}
	return items
}

// acknowledged moves on by n positions.
func (w *writer) acknowledged(n int) {
	if n == 0 {
		return
	}
	recs := make([]Record, n)
	for i := range recs {
		w.base++
		recs[i] = Record{Seq: w.base, Data: w.pending[i].data}
	}
	w.stored(recs) // before the emitters go on: who was told that it is stored can read it
	w.drop(n)
}

func (w *writer) drop(n int) {
	for _, p := range w.pending[:n] {
		if p.req == nil {
			continue
		}
		if p.req.left--; p.req.left == 0 {
			close(p.req.done)
		}
	}
	w.pending = w.pending[n:]
}

// skipDuplicate finds the event that the stream has already, by publishing one alone: it counts as stored.
func (w *writer) skipDuplicate(ctx context.Context) error {
	n, err := w.stream.publish(ctx, w.base, w.window()[:1])
	w.acknowledged(n)
	if err == errDuplicate {
		w.drop(1)
		return nil
	}
	if err != nil {
		return w.recover(ctx, err)
	}
	return nil
}
