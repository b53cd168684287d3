package hubble

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	observerpb "github.com/cilium/cilium/api/v1/observer"
	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/hubble/hubbletest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func flowNumbers(events []*eventpb.Event) []string {
	var out []string
	for _, f := range flowsOf(events) {
		out = append(out, strings.TrimLeft(f.GetUuid()[24:], "0"))
	}
	return out
}

func count(n int) func([]*eventpb.Event) bool {
	return func(events []*eventpb.Event) bool { return len(flowsOf(events)) >= n }
}

func TestRingIsStoredBeforeReadyThenFollowed(t *testing.T) {
	o := hubbletest.New(t)
	o.Write(hubbletest.Flow(1), hubbletest.Flow(2), hubbletest.Flow(3))
	r := run(t, New(Config{Address: o.Socket})).up(t)
	if diff := cmp.Diff([]string{"1", "2", "3"}, flowNumbers(r.wait(t, count(3)))); diff != "" {
		t.Errorf("ring: %s", diff)
	}
	o.Write(hubbletest.Flow(4))
	got := r.wait(t, count(4))
	if diff := cmp.Diff(hubbletest.Flow(4).GetFlow(), flowsOf(got)[3], protocmp.Transform()); diff != "" {
		t.Errorf("flow: %s", diff)
	}
	if gaps := gapsOf(got); len(gaps) > 0 {
		t.Errorf("gaps on a first start: %v", gaps)
	}
	if req := o.Asked()[0]; req.First || !req.Follow || req.GetSince() == nil {
		t.Errorf("asked for %v", req)
	}
}

func TestReadyWithAnEmptyRing(t *testing.T) {
	r := run(t, New(Config{Address: hubbletest.New(t).Socket})).up(t)
	r.end()
	if err := r.broke(t); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// The observer ends the stream with OK: what was received is kept, and the next Run goes on without repeats.
func TestEndOfStreamIsABreakAndIsResumed(t *testing.T) {
	o := hubbletest.New(t)
	o.Agent = []*observerpb.GetAgentEventsResponse{{Time: timestamppb.New(hubbletest.Base), AgentEvent: &flowpb.AgentEvent{Type: flowpb.AgentEventType_AGENT_STARTED}}}
	o.Write(hubbletest.Flow(1), hubbletest.Flow(2))
	s := New(Config{Address: "unix://" + o.Socket})
	r := run(t, s).up(t)
	o.End()
	var trouble *events.Trouble
	if err := r.broke(t); !errors.As(err, &trouble) || !strings.Contains(err.Error(), "ended the stream") {
		t.Fatalf("Run = %v, want a Trouble", err)
	}
	o.Write(hubbletest.Flow(3))
	again := run(t, s).up(t)
	got := again.wait(t, count(1))
	if diff := cmp.Diff([]string{"3"}, flowNumbers(got)); diff != "" {
		t.Errorf("after the break: %s", diff)
	}
	for _, e := range got {
		if e.GetAgentEvents() != nil || e.GetGap() != nil {
			t.Errorf("after the break: %v", e)
		}
	}
}

// A recorder that starts again: flows of the cursor's instant come again, one of them was not recorded.
func TestResumeDropsRepeatsByUUID(t *testing.T) {
	o := hubbletest.New(t)
	twin := hubbletest.Flow(7)
	twin.GetFlow().Uuid = "00000000-0000-4000-8000-00000000000b"
	o.Write(hubbletest.Flow(6), hubbletest.Flow(7), twin, hubbletest.Flow(8))
	var cursor Cursor
	seen := &eventpb.Flows{}
	for _, m := range []*observerpb.GetFlowsResponse{hubbletest.Flow(6), hubbletest.Flow(7)} {
		packed, err := pack(m.GetFlow())
		if err != nil {
			t.Fatal(err)
		}
		seen.Flows = append(seen.Flows, packed)
	}
	cursor.Add(events.New(seen))
	got := run(t, New(Config{Address: o.Socket, Resume: cursor})).up(t).wait(t, count(2))
	if diff := cmp.Diff([]string{"b", "8"}, flowNumbers(got)); diff != "" {
		t.Errorf("resumed: %s", diff)
	}
	if gaps := gapsOf(got); len(gaps) > 0 {
		t.Errorf("gaps though the ring reached back: %v", gaps)
	}
}

func TestRingThatNoLongerReachesBackIsAGap(t *testing.T) {
	o := hubbletest.New(t)
	o.Write(hubbletest.Flow(500), hubbletest.Flow(501))
	last := hubbletest.Base.Add(7 * time.Millisecond).UnixNano()
	got := run(t, New(Config{Address: o.Socket, Resume: Cursor{TimeNs: last}})).up(t).wait(t, count(2))
	gaps := gapsOf(got)
	if len(gaps) != 1 || gaps[0].FromNs != last || gaps[0].ToNs != hubbletest.Base.Add(500*time.Millisecond).UnixNano() || gaps[0].Reason != eventpb.GapReason_GAP_REASON_LOST {
		t.Errorf("gaps %v", gaps)
	}
	if got[0].GetGap() == nil {
		t.Error("the gap does not stand before the flows after it")
	}
}

// A clock that was set back must not make the recorder wait for the old time.
func TestCursorInTheFutureStillSeesFlows(t *testing.T) {
	o := hubbletest.New(t)
	r := run(t, New(Config{Address: o.Socket, Resume: Cursor{TimeNs: time.Now().Add(time.Hour).UnixNano()}})).up(t)
	now := hubbletest.Flow(1)
	now.GetFlow().Time = timestamppb.New(time.Now().Add(time.Second))
	now.Time = now.GetFlow().Time
	o.Write(now)
	r.wait(t, count(1))
}

// One lost event per flow, the first message of all a lost event: the flows are whole, the losses are few gaps.
func TestLostEventsAreSummedPerSource(t *testing.T) {
	o := hubbletest.New(t)
	first := hubbletest.Base.Add(-time.Second)
	o.Write(hubbletest.Lost(flowpb.LostEventSource_HUBBLE_RING_BUFFER, 1, first))
	for i := range 300 {
		o.Write(hubbletest.Flow(i+1), hubbletest.Lost(flowpb.LostEventSource_HUBBLE_RING_BUFFER, 1, hubbletest.Base.Add(time.Duration(i)*time.Millisecond)))
	}
	o.Write(hubbletest.Lost(flowpb.LostEventSource_PERF_EVENT_RING_BUFFER, 17, hubbletest.Base), hubbletest.Lost(flowpb.LostEventSource_OBSERVER_EVENTS_QUEUE, 5, hubbletest.Base))
	r := run(t, New(Config{Address: o.Socket})).up(t)
	got := r.wait(t, func(e []*eventpb.Event) bool {
		total := uint64(0)
		for _, g := range gapsOf(e) {
			total += g.Count
		}
		return total == 301+17+5
	})
	sum := map[string]uint64{}
	for _, g := range gapsOf(got) {
		sum[g.Detail] += g.Count
		if g.Reason != eventpb.GapReason_GAP_REASON_LOST || g.FromNs > g.ToNs || g.FromNs < first.UnixNano() {
			t.Errorf("gap %v", g)
		}
	}
	// The labels are those of hubble_lost_events_total.
	want := map[string]uint64{"hubble_ring_buffer": 301, "perf_event_ring_buffer": 17, "observer_events_queue": 5}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("lost: %s", diff)
	}
	if n := len(gapsOf(got)); n > 9 {
		t.Errorf("%d gaps of 303 lost events", n)
	}
	if n := len(flowsOf(r.wait(t, count(300)))); n != 300 {
		t.Errorf("%d flows, want 300", n)
	}
}

func TestLossHasItsBounds(t *testing.T) {
	l := losses{}
	at := func(s int64) int64 { return s * int64(time.Second) }
	add := func(lost *flowpb.LostEvent, since, told int64) { l.add(lost.GetSource(), lossGap(lost, since, told)) }
	add(&flowpb.LostEvent{Source: flowpb.LostEventSource_OBSERVER_EVENTS_QUEUE, NumEventsLost: 2, First: &timestamppb.Timestamp{Seconds: 11}, Last: &timestamppb.Timestamp{Seconds: 12}}, at(10), at(13))
	add(&flowpb.LostEvent{Source: flowpb.LostEventSource_PERF_EVENT_RING_BUFFER, NumEventsLost: 3}, at(10), at(13))
	add(&flowpb.LostEvent{NumEventsLost: 1}, 0, at(14))
	var got []string
	for _, e := range l.take() {
		g := e.GetGap()
		got = append(got, fmt.Sprintf("%s %d %d-%d", g.Detail, g.Count, g.FromNs/int64(time.Second), g.ToNs/int64(time.Second)))
	}
	want := []string{"unknown 1 14-14", "perf_event_ring_buffer 3 10-13", "observer_events_queue 2 11-12"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(l.take()) != 0 {
		t.Error("taken twice")
	}
}

func TestAgentEventsAreKept(t *testing.T) {
	o := hubbletest.New(t)
	event := &flowpb.AgentEvent{Type: flowpb.AgentEventType_ENDPOINT_CREATED, Notification: &flowpb.AgentEvent_EndpointUpdate{EndpointUpdate: &flowpb.EndpointUpdateNotification{Id: 42, PodName: "web"}}}
	o.Agent = []*observerpb.GetAgentEventsResponse{{Time: timestamppb.New(hubbletest.Base), AgentEvent: event}}
	got := run(t, New(Config{Address: o.Socket})).up(t).wait(t, func(e []*eventpb.Event) bool { return len(e) > 0 })
	a := got[0].GetAgentEvents().GetEvents()[0]
	back := &flowpb.AgentEvent{}
	if err := proto.Unmarshal(a.GetEvent(), back); err != nil || !proto.Equal(event, back) || a.GetTimeNs() != hubbletest.Base.UnixNano() {
		t.Errorf("agent event %v at %d, %v", back, a.GetTimeNs(), err)
	}
}

func TestRelayWithoutAgentEvents(t *testing.T) {
	o := hubbletest.New(t)
	o.Relay = true
	o.Write(hubbletest.Flow(1))
	r := run(t, New(Config{Address: o.Socket})).up(t)
	o.Write(hubbletest.Flow(2))
	r.wait(t, count(2))
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("\x15\x03\x01\x00\x02\x02\x46")) // a TLS alert, as a TLS server answers plain text
			c.Close()
		}
	}()
	defer func() { plain.Close(); <-done }()
	closed := hubbletest.New(t)
	closed.Stop()
	for _, tc := range []struct{ name, address, cause, mend string }{
		{"absent", filepath.Join(t.TempDir(), "none.sock"), "no such socket", "hubble.enabled=true"},
		{"gone", closed.Socket, "no such socket", "--hubble"},
		{"nothing listens", "127.0.0.1:1", "nothing listens", "agent to come back"},
		{"TLS there, none here", plain.Addr().String(), "", "use TLS where the observer does"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := New(Config{Address: tc.address}).Check(t.Context())
			if len(found) != 1 || found[0].Err == nil {
				t.Fatalf("Check = %+v, want one error", found)
			}
			for _, part := range []string{tc.address, tc.cause, tc.mend} {
				if !strings.Contains(found[0].Err.Error(), part) {
					t.Errorf("%q does not say %q", found[0].Err, part)
				}
			}
		})
	}
}

func TestCheckSeesTheRing(t *testing.T) {
	o := hubbletest.New(t)
	o.Write(hubbletest.Flow(1), hubbletest.Flow(2))
	found := New(Config{Address: o.Socket}).Check(t.Context())
	const want = "hubble cilium v1.20.2, 2 of 4095 flows in the ring, 17.2 flows/s, up 2m30s"
	if len(found) != 1 || found[0].Err != nil || found[0].Seen != want {
		t.Errorf("Check = %+v, want %q", found, want)
	}
}
