package hubble

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	observerpb "github.com/cilium/cilium/api/v1/observer"
	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"github.com/tapedeck-io/tapedeck/internal/sources/hubble/hubbletest"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// lostBySource sums what gaps count.
func lostBySource(list []*eventpb.Event) map[string]uint64 {
	sum := map[string]uint64{}
	for _, g := range gapsOf(list) {
		sum[g.Detail] += g.Count
	}
	return sum
}

// cilium#34981, #41163: markers of three rings at 30,000 a second, for two seconds. The counts are exact, the gaps few,
// the sources told apart, and the flows between them all there.
func TestFloodOfLostEvents(t *testing.T) {
	o := hubbletest.New(t)
	const markers, flows = 60_000, 600
	rings := []flowpb.LostEventSource{
		flowpb.LostEventSource_PERF_EVENT_RING_BUFFER, flowpb.LostEventSource_OBSERVER_EVENTS_QUEUE, flowpb.LostEventSource_HUBBLE_RING_BUFFER,
	}
	want := map[string]uint64{}
	var flood []*observerpb.GetFlowsResponse
	for i := range markers {
		ring, n := rings[i%3], uint64(1+i%5)
		flood = append(flood, hubbletest.Lost(ring, n, hubbletest.Base.Add(time.Duration(i)*time.Second/30_000)))
		want[strings.ToLower(ring.String())] += n
		if i%(markers/flows) == 0 {
			flood = append(flood, hubbletest.Flow(1+i))
		}
	}
	o.Write(flood...)
	start := time.Now()
	r := run(t, New(Config{Address: o.Socket}))
	got := r.wait(t, func(e []*eventpb.Event) bool { return cmp.Equal(want, lostBySource(e)) && len(flowsOf(e)) == flows })
	if most := 3 * (2 + int(time.Since(start)/lostEvery)); len(gapsOf(got)) > most {
		t.Errorf("%d gaps of %d markers, at most %d are due", len(gapsOf(got)), markers, most)
	}
}

// The observer keeps losses among its flows and sends them again with these. They are counted once; a loss of the
// observer's own ring is a new one each time.
func TestLossIsCountedOnceOverABreak(t *testing.T) {
	o := hubbletest.New(t)
	at := func(ms int) time.Time { return hubbletest.Base.Add(time.Duration(ms) * time.Millisecond) }
	o.Write(hubbletest.Flow(1), hubbletest.Lost(flowpb.LostEventSource_PERF_EVENT_RING_BUFFER, 17, at(2)), hubbletest.Flow(3),
		hubbletest.Lost(flowpb.LostEventSource_OBSERVER_EVENTS_QUEUE, 5, at(4)), hubbletest.Flow(5))
	s := New(Config{Address: o.Socket})
	r := run(t, s).up(t)
	r.wait(t, func(e []*eventpb.Event) bool { return len(gapsOf(e)) == 2 && len(flowsOf(e)) == 3 })
	o.End()
	r.broke(t)
	o.Write(hubbletest.Flow(6), hubbletest.Lost(flowpb.LostEventSource_PERF_EVENT_RING_BUFFER, 2, at(7)),
		hubbletest.Lost(flowpb.LostEventSource_HUBBLE_RING_BUFFER, 9, at(2)), hubbletest.Flow(8))
	want := map[string]uint64{"perf_event_ring_buffer": 2, "hubble_ring_buffer": 9}
	got := run(t, s).up(t).wait(t, func(e []*eventpb.Event) bool { return len(gapsOf(e)) >= 2 && len(flowsOf(e)) >= 2 })
	if d := cmp.Diff(want, lostBySource(got)); d != "" {
		t.Errorf("lost after the break: %s", d)
	}
	if d := cmp.Diff([]string{"6", "8"}, flowNumbers(got)); d != "" {
		t.Errorf("flows after the break: %s", d)
	}
}

// cilium#11223: a relay of two nodes whose clocks are three seconds apart. The order of arrival is kept, and after a
// break nothing comes twice and nothing that was late is left out.
func TestFlowsOutOfOrderOfTime(t *testing.T) {
	o := hubbletest.New(t)
	of := func(node string, n, ms int) *observerpb.GetFlowsResponse {
		m := hubbletest.Flow(n)
		m.NodeName, m.GetFlow().NodeName = node, node
		m.Time = timestamppb.New(hubbletest.Base.Add(time.Duration(ms) * time.Millisecond))
		m.GetFlow().Time = m.Time
		return m
	}
	o.Write(of("a", 1, 5000), of("b", 2, 2000), of("a", 3, 5001), of("b", 4, 2001), of("a", 5, 5002))
	s := New(Config{Address: o.Socket})
	r := run(t, s).up(t)
	got := r.wait(t, count(5))
	for node, want := range map[string][]string{"a": {"1", "3", "5"}, "b": {"2", "4"}} {
		var list []*eventpb.Event
		for _, e := range got {
			if e.GetFlows().GetNodeName() == node {
				list = append(list, e)
			}
		}
		if d := cmp.Diff(want, flowNumbers(list)); d != "" {
			t.Errorf("node %s: %s", node, d)
		}
	}
	o.End()
	r.broke(t)
	o.Write(of("b", 6, 2002), of("a", 7, 5003), of("b", 8, 2003)) // b's are behind what a has sent
	list := run(t, s).up(t).wait(t, count(3))
	numbers := flowNumbers(list)
	slices.Sort(numbers)
	if d := cmp.Diff([]string{"6", "7", "8"}, numbers); d != "" {
		t.Errorf("after the break: %s", d)
	}
}

// Rows of one node in one window stand in the order of the observer, whatever their times say.
func TestArrivalOrderIsKept(t *testing.T) {
	o := hubbletest.New(t)
	o.Write(hubbletest.Flow(9), hubbletest.Flow(3), hubbletest.Flow(7), hubbletest.Flow(3+16), hubbletest.Flow(1))
	got := run(t, New(Config{Address: o.Socket})).up(t).wait(t, count(5))
	if d := cmp.Diff([]string{"9", "3", "7", "13", "1"}, flowNumbers(got)); d != "" {
		t.Error(d)
	}
}

// cilium#12954, #19623: a socket call is seen without a source port or flags. And what other readers stumbled over: a
// flow above 64 KiB, a field of a later version, a flow without a time, one without anything.
func TestOddFlowsAreRecorded(t *testing.T) {
	o := hubbletest.New(t)
	later := hubbletest.Flow(4).GetFlow()
	later.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 29999, protowire.BytesType), "new"))
	odd := []*flowpb.Flow{
		{Time: timestamppb.New(hubbletest.Base), Verdict: flowpb.Verdict_TRACED, SocketCookie: 42, IP: &flowpb.IP{Destination: "10.43.0.10"}},
		{Time: timestamppb.New(hubbletest.Base), Verdict: flowpb.Verdict_TRANSLATED, SocketCookie: 42, IP: &flowpb.IP{Destination: "10.42.0.9"},
			L4: &flowpb.Layer4{Protocol: &flowpb.Layer4_TCP{TCP: &flowpb.TCP{DestinationPort: 8080}}}},
		{Time: timestamppb.New(hubbletest.Base), L7: &flowpb.Layer7{Record: &flowpb.Layer7_Http{Http: &flowpb.HTTP{Url: "/" + strings.Repeat("x", 100<<10)}}}},
		later, {Uuid: "none"}, {},
	}
	for _, f := range odd {
		o.Write(hubbletest.Response(f))
	}
	got := run(t, New(Config{Address: o.Socket})).up(t).wait(t, count(len(odd)))
	var back []*flowpb.Flow
	for _, name := range []string{"", "lab/lab"} { // one event for each node
		for _, f := range flowsOf(got) {
			if f.GetNodeName() == name {
				back = append(back, f)
			}
		}
	}
	want := []*flowpb.Flow{odd[0], odd[1], odd[2], odd[4], odd[5], odd[3]}
	if d := cmp.Diff(want, back, protocmp.Transform()); d != "" {
		t.Error(d)
	}
}

// hubble#134: the observer ends the stream with OK. The supervisor connects again, and the time between is a gap.
func TestEndOfStreamIsAGap(t *testing.T) {
	o := hubbletest.New(t)
	o.Write(hubbletest.Flow(1))
	r := &running{changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		sources.Supervise(ctx, slog.New(slog.DiscardHandler), func(string) events.Emit { return r.emit }, []sources.Source{New(Config{Address: o.Socket})})
	}()
	defer func() { cancel(); <-done }()
	up := func(list []*eventpb.Event) (n int) {
		for _, e := range list {
			if e.GetStatus().GetState() == eventpb.SourceState_SOURCE_STATE_UP {
				n++
			}
		}
		return n
	}
	r.wait(t, func(list []*eventpb.Event) bool { return up(list) == 1 })
	o.End()
	o.Write(hubbletest.Flow(2))
	got := r.wait(t, func(list []*eventpb.Event) bool { return up(list) == 2 && len(flowsOf(list)) == 2 })
	gaps := gapsOf(got)
	if len(gaps) != 1 || gaps[0].Reason != eventpb.GapReason_GAP_REASON_SOURCE_DOWN || !strings.Contains(gaps[0].Detail, "ended the stream") {
		t.Errorf("gaps %v", gaps)
	}
}

// BenchmarkFollow is a peer that sends as fast as the recorder takes, into a journal on the disk.
func BenchmarkFollow(b *testing.B) {
	j, err := journal.Open(b.TempDir(), journal.Options{Sync: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close(context.Background())
	real := fixtureFlows(b, "testdata/flows.jsonl")
	sent := make([]*observerpb.GetFlowsResponse, b.N)
	for i := range sent {
		m := hubbletest.Flow(i)
		m.GetFlow().L4, m.GetFlow().Source = real[i%len(real)].L4, real[i%len(real)].Source
		m.GetFlow().Destination = real[i%len(real)].Destination
		sent[i] = m
	}
	o := hubbletest.New(b)
	o.Write(sent...)
	s := New(Config{Address: o.Socket})
	emit, left, all := j.Emitter("hubble"), b.N, make(chan struct{})
	count := func(ctx context.Context, list ...*eventpb.Event) error {
		err := emit(ctx, list...)
		for _, e := range list {
			if left -= len(e.GetFlows().GetFlows()); left == 0 {
				close(all)
			}
		}
		return err
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	b.ResetTimer()
	go func() { done <- s.Run(ctx, count, func() {}) }()
	select {
	case <-all:
	case err := <-done:
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "flows/s")
	cancel()
	<-done
}
