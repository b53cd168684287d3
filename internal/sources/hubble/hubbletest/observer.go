// Package hubbletest is a Hubble observer, for the tests of what follows one.
package hubbletest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	observerpb "github.com/cilium/cilium/api/v1/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Observer serves a ring as the agent's does: since is inclusive, lost events ignore it, first excludes follow, and a
// reader that is slower than what is written is told how much it missed.
type Observer struct {
	observerpb.UnimplementedObserverServer
	Socket string // its path
	Size   int    // of the ring; 0 is without a bound
	Relay  bool   // has no agent events
	Agent  []*observerpb.GetAgentEventsResponse

	t      testing.TB
	server *grpc.Server
	served chan struct{}

	mu      sync.Mutex
	ring    []*observerpb.GetFlowsResponse
	gone    int // messages that were in the ring before
	changed chan struct{}
	ended   chan struct{} // closed: streams end without an error
	asked   []*observerpb.GetFlowsRequest
}

// New returns one that listens on a unix socket as long as the test lasts.
func New(t testing.TB) *Observer {
	t.Helper()
	o := &Observer{t: t, Socket: filepath.Join(t.TempDir(), "hubble.sock"), changed: make(chan struct{}), ended: make(chan struct{})}
	o.Start()
	t.Cleanup(o.Stop)
	return o
}

// Start listens again after Stop.
func (o *Observer) Start() {
	o.t.Helper()
	l, err := net.Listen("unix", o.Socket)
	if err != nil {
		o.t.Fatal(err)
	}
	o.server, o.served = grpc.NewServer(), make(chan struct{})
	observerpb.RegisterObserverServer(o.server, o)
	server, served := o.server, o.served
	go func() { defer close(served); _ = server.Serve(l) }()
}

// Stop takes the socket away and breaks what is open; the ring stays.
func (o *Observer) Stop() {
	o.server.Stop()
	<-o.served
}

// End ends the open streams as the agent does when it stops; the server stays.
func (o *Observer) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.ended)
	o.ended = make(chan struct{})
}

// Write puts messages into the ring.
func (o *Observer) Write(m ...*observerpb.GetFlowsResponse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ring = append(o.ring, m...)
	if over := len(o.ring) - o.Size; o.Size > 0 && over > 0 {
		o.ring, o.gone = o.ring[over:], o.gone+over
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// Forget empties the ring, as a restart of the agent does.
func (o *Observer) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone += len(o.ring)
	o.ring = nil
}

// Asked are the requests for flows so far.
func (o *Observer) Asked() []*observerpb.GetFlowsRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.asked)
}

// ServerStatus tells the ring's state.
func (o *Observer) ServerStatus(context.Context, *observerpb.ServerStatusRequest) (*observerpb.ServerStatusResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &observerpb.ServerStatusResponse{Version: "cilium v1.20.2", NumFlows: uint64(len(o.ring)), MaxFlows: 4095, FlowsRate: 17.21, UptimeNs: uint64(150 * time.Second)}, nil
}

// GetFlows sends the ring and follows it.
func (o *Observer) GetFlows(req *observerpb.GetFlowsRequest, stream grpc.ServerStreamingServer[observerpb.GetFlowsResponse]) error {
	if req.First && req.Follow {
		return status.Errorf(codes.InvalidArgument, "first cannot be specified with follow")
	}
	o.mu.Lock()
	o.asked = append(o.asked, proto.CloneOf(req))
	ended, next := o.ended, o.gone
	o.mu.Unlock()
	for {
		some, missed, changed := o.read(next)
		if missed > 0 {
			if err := stream.Send(Lost(flowpb.LostEventSource_HUBBLE_RING_BUFFER, uint64(missed), time.Now())); err != nil {
				return err
			}
		}
		next += missed + len(some)
		for _, m := range some {
			if m.GetFlow() != nil && m.GetTime().AsTime().Before(req.GetSince().AsTime()) {
				continue
			}
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		if len(some) > 0 {
			continue
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

// read returns some of what the ring has from a message on, and how many before those it has not any more.
func (o *Observer) read(next int) (some []*observerpb.GetFlowsResponse, missed int, changed <-chan struct{}) {
	const atOnce = 64
	o.mu.Lock()
	defer o.mu.Unlock()
	missed = max(0, o.gone-next)
	from := next + missed - o.gone
	return o.ring[from:min(len(o.ring), from+atOnce)], missed, o.changed
}

// GetAgentEvents sends those that there are.
func (o *Observer) GetAgentEvents(req *observerpb.GetAgentEventsRequest, stream grpc.ServerStreamingServer[observerpb.GetAgentEventsResponse]) error {
	if o.Relay {
		return status.Error(codes.Unimplemented, "not implemented")
	}
	o.mu.Lock()
	events, ended := o.Agent, o.ended
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

// Base is the start of the made-up ring: the flows of a minute ago.
var Base = time.Now().Add(-time.Minute).Truncate(time.Second)

// Flow is number i of a ring: a millisecond apart, with a uuid of its own.
func Flow(i int) *observerpb.GetFlowsResponse {
	f := &flowpb.Flow{
		Time: timestamppb.New(Base.Add(time.Duration(i) * time.Millisecond)), Uuid: fmt.Sprintf("00000000-0000-4000-8000-%012x", i),
		Verdict: flowpb.Verdict_FORWARDED, NodeName: "lab/lab", NodeLabels: []string{"kubernetes.io/os=linux"},
		IP: &flowpb.IP{Source: "10.42.0.9", Destination: "10.42.0.38"},
	}
	return Response(f)
}

// Response is how the observer sends a flow.
func Response(f *flowpb.Flow) *observerpb.GetFlowsResponse {
	return &observerpb.GetFlowsResponse{Time: f.Time, NodeName: f.NodeName, ResponseTypes: &observerpb.GetFlowsResponse_Flow{Flow: f}}
}

// Lost is how it tells of a loss.
func Lost(source flowpb.LostEventSource, n uint64, at time.Time) *observerpb.GetFlowsResponse {
	return &observerpb.GetFlowsResponse{Time: timestamppb.New(at), ResponseTypes: &observerpb.GetFlowsResponse_LostEvents{
		LostEvents: &flowpb.LostEvent{Source: source, NumEventsLost: n},
	}}
}
