package hubble

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	observerpb "github.com/cilium/cilium/api/v1/observer"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/encoding/protojson"
)

// fixtureFlows are flows as `hubble observe -o jsonpb` printed them on a real node.
func fixtureFlows(t testing.TB, file string) []*flowpb.Flow {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []*flowpb.Flow
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		m := &observerpb.GetFlowsResponse{}
		if err := protojson.Unmarshal(lines.Bytes(), m); err != nil {
			t.Fatal(err)
		}
		if m.GetFlow() != nil {
			out = append(out, m.GetFlow())
		}
	}
	return out
}

// running is a source that runs until the test ends or stop is called, and what it emitted.
type running struct {
	mu      sync.Mutex
	events  []*eventpb.Event
	changed chan struct{}
	ready   chan struct{}
	done    chan error
	end     context.CancelFunc
}

func run(t *testing.T, s *Source) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{changed: make(chan struct{}), ready: make(chan struct{}), done: make(chan error, 1), end: cancel}
	go func() { r.done <- s.Run(ctx, r.emit, func() { close(r.ready) }); close(r.done) }()
	t.Cleanup(func() { cancel(); <-r.done })
	return r
}

func (r *running) emit(ctx context.Context, events ...*eventpb.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
	close(r.changed)
	r.changed = make(chan struct{})
	return ctx.Err()
}

func (r *running) up(t *testing.T) *running {
	t.Helper()
	select {
	case <-r.ready:
	case err := <-r.done:
		t.Fatalf("Run ended: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("not ready in 10 s")
	}
	return r
}

func (r *running) broke(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("Run did not end")
		return nil
	}
}

// wait returns what was emitted as soon as it is as asked for.
func (r *running) wait(t *testing.T, ok func([]*eventpb.Event) bool) []*eventpb.Event {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		r.mu.Lock()
		changed, got := r.changed, slices.Clone(r.events)
		r.mu.Unlock()
		if ok(got) {
			return got
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited in vain; %d events, %d flows, gaps %v", len(got), len(flowsOf(got)), gapsOf(got))
		}
	}
}

// flowsOf restores every flow.
func flowsOf(events []*eventpb.Event) []*flowpb.Flow {
	var out []*flowpb.Flow
	for _, e := range events {
		for i := range e.GetFlows().GetFlows() {
			out = append(out, Expand(e.GetFlows(), i))
		}
	}
	return out
}

func gapsOf(events []*eventpb.Event) []*eventpb.Gap {
	var out []*eventpb.Gap
	for _, e := range events {
		if e.GetGap() != nil {
			out = append(out, e.GetGap())
		}
	}
	return out
}
