package projections

import (
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// gaps lists the findings of the recorder, as "subject" or "subject ended".
func (st *story) gaps() (list []*Finding) {
	for _, f := range st.s.Findings() {
		if f.Rule == recorderGap.name {
			list = append(list, f)
		}
	}
	return list
}

func TestGapOfASourceThatIsDown(t *testing.T) {
	st := tell(t)
	st.now = 100e9
	st.event("agent", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN, Error: "agent socket /x: no such file; start the agent"})
	st.pass(120)
	if g := st.gaps(); len(g) != 1 || g[0].Subject != "agent source down" || g[0].SinceNs != 100e9 || g[0].EndedNs != 0 || !strings.Contains(g[0].Text, "start the agent") {
		t.Fatalf("while the agent is down: %+v", g)
	}
	st.now = 230e9
	st.event("agent", &eventpb.Gap{FromNs: 99e9, ToNs: 229e9, Reason: eventpb.GapReason_GAP_REASON_SOURCE_DOWN, Detail: "no such file"})
	st.up("agent")
	due, ok := st.s.NextDue()
	if !ok || due != 290e9 {
		t.Errorf("a tick is asked for at %d, %t, want when the gap is over", due, ok)
	}
	st.pass(61)
	if g := st.gaps(); len(g) != 1 || g[0].SinceNs != 100e9 || g[0].EndedNs != 229e9 {
		t.Errorf("after it is whole again: %+v", g)
	}
}

// cilium#34981, hubble#1737: floods of lost events are one finding, and crowd nothing out.
func TestGapsThatFollowEachOther(t *testing.T) {
	st := tell(t)
	st.now = 100e9
	for i := range int64(500) {
		st.now += 1e9
		st.event("hubble", &eventpb.Gap{FromNs: st.now - 5e8, ToNs: st.now, Reason: eventpb.GapReason_GAP_REASON_LOST, Count: uint64(i), Detail: "hubble_ring_buffer"})
		st.event("hubble", &eventpb.Flows{})
	}
	st.event("host", &eventpb.Gap{FromNs: st.now, ToNs: st.now, Reason: eventpb.GapReason_GAP_REASON_LATE, Detail: "links were looked at 2.5s late"})
	last := st.now
	st.pass(61)
	for _, g := range st.gaps() {
		switch {
		case g.Subject == "hubble lost" && g.SinceNs == 100e9+5e8 && g.EndedNs == last:
		case g.Subject == "host late" && g.EndedNs == last:
		default:
			t.Errorf("a gap: %+v", g)
		}
	}
	if n := len(st.gaps()); n != 2 {
		t.Errorf("%d findings of two sources", n)
	}
	st.event("hubble", &eventpb.Gap{FromNs: st.now, ToNs: st.now, Reason: eventpb.GapReason_GAP_REASON_LOST})
	if g := st.gaps(); len(g) != 3 || g[0].EndedNs != 0 {
		t.Errorf("what is lost much later is another finding: %+v", g)
	}
}

// A clock that is set back would keep the finding open for as long.
func TestGapWhoseClockIsSetBack(t *testing.T) {
	st := tell(t)
	st.now = 1e15
	st.event("bpfmap", &eventpb.Gap{FromNs: 1e15 - 1e9, ToNs: 1e15, Reason: eventpb.GapReason_GAP_REASON_LATE})
	st.now = 1e12
	st.event("recorder", &eventpb.Gap{FromNs: 1e12, ToNs: 1e15, Reason: eventpb.GapReason_GAP_REASON_CLOCK})
	st.pass(61)
	if g := st.gaps(); len(g) != 2 || g[0].EndedNs == 0 || g[1].EndedNs == 0 {
		t.Errorf("after the clock was set back: %+v", g)
	}
}

func TestGapOfTheRecorder(t *testing.T) {
	st := tell(t)
	st.now = 500e9
	st.event("recorder", &eventpb.Gap{FromNs: 200e9, ToNs: 500e9, Reason: eventpb.GapReason_GAP_REASON_RESTART, Detail: "the recorder was not running"})
	st.event("recorder", &eventpb.Session{Sources: []string{"kube", "bpfmap"}})
	st.pass(61)
	if g := st.gaps(); len(g) != 1 || g[0].Subject != "recorder restart" || g[0].SinceNs != 200e9 || g[0].EndedNs != 500e9 {
		t.Errorf("after a restart: %+v", g)
	}
}
