package hubble

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	observerpb "github.com/cilium/cilium/api/v1/observer"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// observer serves a ring as the agent's does: since is inclusive, lost events ignore it, first excludes follow.
type observer struct {
	observerpb.UnimplementedObserverServer
	t      testing.TB
	socket string
	server *grpc.Server
	served chan struct{}
	relay  bool // has no agent events

	mu      sync.Mutex
	ring    []*observerpb.GetFlowsResponse
	agent   []*observerpb.GetAgentEventsResponse
	changed chan struct{}
	ended   chan struct{} // closed: streams end without an error
	asked   []*observerpb.GetFlowsRequest
}

func newObserver(t testing.TB) *observer {
	t.Helper()
	o := &observer{t: t, socket: filepath.Join(t.TempDir(), "hubble.sock"), changed: make(chan struct{}), ended: make(chan struct{})}
	o.start()
	t.Cleanup(o.stop)
	return o
}

func (o *observer) start() {
	o.t.Helper()
	l, err := net.Listen("unix", o.socket)
	if err != nil {
		o.t.Fatal(err)
	}
	o.server, o.served = grpc.NewServer(), make(chan struct{})
	observerpb.RegisterObserverServer(o.server, o)
	server, served := o.server, o.served
	go func() { defer close(served); _ = server.Serve(l) }()
}

func (o *observer) stop() {
	o.server.Stop()
	<-o.served
}

// end ends the open streams as the agent does when it stops; the server stays.
func (o *observer) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.ended)
	o.ended = make(chan struct{})
}

func (o *observer) write(m ...*observerpb.GetFlowsResponse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ring = append(o.ring, m...)
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *observer) ServerStatus(context.Context, *observerpb.ServerStatusRequest) (*observerpb.ServerStatusResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &observerpb.ServerStatusResponse{Version: "cilium v1.20.2", NumFlows: uint64(len(o.ring)), MaxFlows: 4095, FlowsRate: 17.21, UptimeNs: uint64(150 * time.Second)}, nil
}

func (o *observer) GetFlows(req *observerpb.GetFlowsRequest, stream grpc.ServerStreamingServer[observerpb.GetFlowsResponse]) error {
	if req.First && req.Follow {
		return status.Errorf(codes.InvalidArgument, "first cannot be specified with follow")
	}
	o.mu.Lock()
	o.asked = append(o.asked, proto.CloneOf(req))
	ended := o.ended
	o.mu.Unlock()
	for next := 0; ; {
		o.mu.Lock()
		ring, changed := o.ring, o.changed
		o.mu.Unlock()
		for ; next < len(ring); next++ {
			if ring[next].GetFlow() != nil && ring[next].GetTime().AsTime().Before(req.GetSince().AsTime()) {
				continue
			}
			if err := stream.Send(proto.CloneOf(ring[next])); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ended:
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (o *observer) GetAgentEvents(req *observerpb.GetAgentEventsRequest, stream grpc.ServerStreamingServer[observerpb.GetAgentEventsResponse]) error {
	if o.relay {
		return status.Error(codes.Unimplemented, "not implemented")
	}
	o.mu.Lock()
	events, ended := o.agent, o.ended
	o.mu.Unlock()
	for _, e := range events {
		if e.GetTime().AsTime().Before(req.GetSince().AsTime()) {
			continue
		}
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	select {
	case <-ended:
		return nil
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// start of the made-up ring: the flows of a minute ago.
var base = time.Now().Add(-time.Minute).Truncate(time.Second)

// flow number i of a ring: a millisecond apart, with a uuid of its own.
func flow(i int) *observerpb.GetFlowsResponse {
	f := &flowpb.Flow{
		Time: timestamppb.New(base.Add(time.Duration(i) * time.Millisecond)), Uuid: fmt.Sprintf("00000000-0000-4000-8000-%012x", i),
		Verdict: flowpb.Verdict_FORWARDED, NodeName: "lab/lab", NodeLabels: []string{"kubernetes.io/os=linux"},
		IP: &flowpb.IP{Source: "10.42.0.9", Destination: "10.42.0.38"},
	}
	return response(f)
}

func response(f *flowpb.Flow) *observerpb.GetFlowsResponse {
	return &observerpb.GetFlowsResponse{Time: f.Time, NodeName: f.NodeName, ResponseTypes: &observerpb.GetFlowsResponse_Flow{Flow: f}}
}

func lostEvent(source flowpb.LostEventSource, n uint64, at time.Time) *observerpb.GetFlowsResponse {
	return &observerpb.GetFlowsResponse{Time: timestamppb.New(at), ResponseTypes: &observerpb.GetFlowsResponse_LostEvents{
		LostEvents: &flowpb.LostEvent{Source: source, NumEventsLost: n},
	}}
}

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
