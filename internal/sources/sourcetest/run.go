// Package sourcetest is what the tests of several sources share: a source that runs, a cluster and an API server's
// refusals made up, and the lab.
package sourcetest

import (
	"context"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// patience ends a test that waits for what never comes. It is far above what a slow machine needs.
const patience = time.Minute

// Running is a source that runs until the test ends.
type Running struct {
	t      *testing.T
	events chan *eventpb.Event
	ready  chan struct{}
	ended  chan struct{}
	err    error // Run's, once ended
}

// Run starts the source. When the test ends it ends too, or the test fails.
func Run(t *testing.T, s sources.Source) *Running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &Running{t: t, events: make(chan *eventpb.Event, 10_000), ready: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = s.Run(ctx, r.emit, func() { close(r.ready) })
	}()
	t.Cleanup(func() { cancel(); r.Ended() })
	return r
}

// emit fills in what the journal would, as far as tests look at it.
func (r *Running) emit(ctx context.Context, list ...*eventpb.Event) error {
	for _, e := range list {
		if e.SeenNs == 0 {
			e.SeenNs = time.Now().UnixNano()
		}
		select {
		case r.events <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// Ready waits for the first snapshot.
func (r *Running) Ready() {
	r.t.Helper()
	select {
	case <-r.ready:
	case <-r.ended:
		r.t.Fatalf("the source ended: %v", r.err)
	case <-time.After(patience):
		r.t.Fatal("the source does not get ready")
	}
}

// Next waits for the next event.
func (r *Running) Next() *eventpb.Event {
	r.t.Helper()
	select {
	case e := <-r.events:
		return e
	case <-r.ended:
		r.t.Fatalf("the source ended: %v", r.err)
	case <-time.After(patience):
		r.t.Fatal("no event comes")
	}
	return nil
}

// Emitted takes the events that are there.
func (r *Running) Emitted() (list []*eventpb.Event) {
	for len(r.events) > 0 {
		list = append(list, <-r.events)
	}
	return list
}

// Ended waits for Run's return.
func (r *Running) Ended() error {
	r.t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(patience):
		r.t.Fatal("Run does not end")
		return nil
	}
}

// Until polls a condition that another goroutine makes true.
func Until(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition does not come true")
		}
	}
}
