package projections

import (
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

func TestBaselineWaitsForAllReplicasAndStays(t *testing.T) {
	st := tell(t)
	st.service("web", "u1", webIP)
	if st.field("svc.json", "backends") != nil {
		t.Error("svc.json has backends before any is known")
	}
	// The pods get ready one by one: the first agreement is not the one meant.
	st.ready("10.42.0.9", "-10.42.0.38")
	st.web("10.42.0.9:8080")
	if got := st.field("svc.json", "backends"); got != nil {
		t.Errorf("baseline of one backend taken: %v", got)
	}
	// The slice is ahead of the map.
	st.ready("10.42.0.38", "10.42.0.9")
	if got := st.field("svc.json", "backends"); got != nil {
		t.Errorf("baseline taken while map and slice disagree: %v", got)
	}
	st.web("10.42.0.38:8080", "10.42.0.9:8080")
	want := `["10.42.0.9:8080","10.42.0.38:8080"]`
	if got := texts(st.field("svc.json", "backends")); got != want {
		t.Errorf("backends %s, want %s in order of address", got, want)
	}
	if got := texts(st.field("svc.json", "backend_pods")); got != `["web-38","web-9"]` {
		t.Errorf("backend_pods %s", got)
	}
	if got := st.field("svc.json", "service_id"); got != 7.0 {
		t.Errorf("service_id %v, want 7", got)
	}

	st.ready("10.42.0.9", "10.42.0.38", "10.42.0.50", "10.42.0.51")
	st.web("10.42.0.9:8080", "10.42.0.38:8080", "10.42.0.50:8080", "10.42.0.51:8080")
	if got := texts(st.field("svc.json", "backends")); got != want {
		t.Errorf("baseline followed the scale-up: %s", got)
	}
	if got := texts(st.field("scale.json", "new_backends")); got != `["10.42.0.50:8080","10.42.0.51:8080"]` {
		t.Errorf("new_backends %s", got)
	}

	st.event("recorder", &eventpb.Mark{Text: "svc"})
	if got := st.field("svc.json", "backends").([]any); len(got) != 4 {
		t.Errorf("the mark svc took %v, want the four backends of now", got)
	}
	st.ready()
	st.service("web", "u2", webIP)
	if got := st.field("svc.json", "backend_pods"); got != nil {
		t.Errorf("the baseline outlived its Service: %v", got)
	}
}

func TestHeadAndLostBackendAreNoBackends(t *testing.T) {
	st := tell(t)
	st.service("web", "u1", webIP)
	st.maps(
		servicesDelta(true, serviceEntry(webIP+":80", 2, 0, 7, 99), serviceEntry(webIP+":80", 0, 2, 7, 0), serviceEntry(webIP+":80", 1, 0, 7, 10)),
		backendsDelta(true, backendEntry(10, "10.42.0.9:8080")),
	)
	if got := texts(st.field("scale.json", "backends")); got != `["10.42.0.9:8080"]` {
		t.Errorf("backends %s: slot 0 is the frontend, and backend 99 has no entry", got)
	}
}

func TestDumpHoldsWithItsLastPart(t *testing.T) {
	st := tell(t)
	st.service("web", "u1", webIP)
	st.web("10.42.0.9:8080")
	part := func(n uint32, entries ...[]byte) *eventpb.MapDelta {
		d := servicesDelta(true, entries...)
		d.Part, d.Parts = n, 2
		return d
	}
	st.maps(part(1, serviceEntry(webIP+":80", 0, 0, 7, 0)))
	if got := texts(st.field("scale.json", "backends")); got != `["10.42.0.9:8080"]` {
		t.Errorf("half a dump showed: %s", got)
	}
	st.maps(part(2))
	if got := texts(st.field("scale.json", "backends")); got != `[]` {
		t.Errorf("backends %s after a dump without slots, want none", got)
	}
}

func TestDeletedSlotGoes(t *testing.T) {
	st := tell(t)
	st.service("web", "u1", webIP)
	st.web("10.42.0.9:8080", "10.42.0.10:8080")
	d := servicesDelta(false, serviceEntry(webIP+":80", 0, 1, 7, 0))
	d.Deletes = serviceEntry(webIP+":80", 2, 0, 0, 0)[:12]
	st.maps(d)
	if got := texts(st.field("scale.json", "backends")); got != `["10.42.0.9:8080"]` {
		t.Errorf("backends %s after slot 2 was deleted", got)
	}
}

func TestUnreadableMapIsNotDecoded(t *testing.T) {
	st := tell(t)
	st.service("web", "u1", webIP)
	st.maps(&eventpb.MapDelta{Map: "cilium_lb4_services_v9", KeySize: 12, ValueSize: 12, Complete: true, Unsupported: true, Upserts: serviceEntry(webIP+":80", 0, 1, 7, 0)})
	if got := st.field("scale.json", "backends"); got != nil {
		t.Errorf("backends %v read from a layout that is not known", got)
	}
	if text := st.text("session.json"); !strings.Contains(text, "a recorder that can read cilium_lb4_services_v9 (keys of 12 bytes, values of 12)") {
		t.Errorf("session.json does not say what it cannot read:\n%s", text)
	}
}

func TestRelistDropsWhatIsGone(t *testing.T) {
	st := tell(t)
	st.pods(st.podObject("holder", "h1", "10.42.0.5"))
	if st.file("ct.json") == nil {
		t.Fatal("no ct.json with the holder there")
	}
	st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_POD, Complete: true, Part: 1, Parts: 2})
	if st.file("ct.json") == nil {
		t.Error("half a list dropped the holder")
	}
	st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_POD, Complete: true, Part: 2, Parts: 2})
	if st.file("ct.json") != nil {
		t.Error("ct.json outlived the holder, which a new list does not have")
	}
}

func TestFoldedPositionChangesNothing(t *testing.T) {
	st := tell(t)
	st.service("web", "u1", webIP)
	before := st.text("session.json")
	st.s.Apply(st.s.Seq, &eventpb.Event{Source: "kube", Body: &eventpb.Event_Kube{Kube: &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_SERVICE, Complete: true}}})
	if got := st.text("session.json"); got != before {
		t.Error("the same position was folded twice")
	}
}

func TestSnapshotAfterRestartSweepsOldMaps(t *testing.T) {
	st := tell(t)
	st.maps(&eventpb.MapDelta{Map: "cilium_policy_v3_00042", KeySize: 12, ValueSize: 12, Complete: true})
	if _, ok := st.s.policyMap(42); !ok {
		t.Fatal("policy map of endpoint 42 not seen")
	}
	st.event("recorder", &eventpb.Session{Sources: []string{"bpfmap"}})
	if _, ok := st.s.policyMap(42); !ok {
		t.Error("gone before the new snapshot is there")
	}
	st.maps(&eventpb.MapDelta{Map: "cilium_policy_v3_00043", KeySize: 12, ValueSize: 12, Complete: true})
	st.up("bpfmap")
	if _, ok := st.s.policyMap(42); ok {
		t.Error("a map that the snapshot after a restart does not have is still there")
	}
	if name, _ := st.s.policyMap(43); name != "cilium_policy_v3_00043" {
		t.Errorf("policy map of endpoint 43 is %q", name)
	}
}

func TestDownSourceIsSaid(t *testing.T) {
	st := tell(t)
	st.service("web", "u1", webIP)
	st.event("agent", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN, Error: "agent socket /x: no such file; start the agent"})
	text := st.text("session.json")
	if !strings.Contains(text, "source agent, which is down: agent socket /x") {
		t.Errorf("session.json does not say which files wait for the agent:\n%s", text)
	}
}

func TestUnknownKindIsCountedAndKept(t *testing.T) {
	st := tell(t)
	st.s.Apply(st.s.Seq+1, &eventpb.Event{Source: "newer"})
	if st.s.Unknown != 1 {
		t.Errorf("%d unknown events, want 1", st.s.Unknown)
	}
}
