package projections

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

const client = "10.42.0.5:40404"

func TestLiveConnectionAmongOldOnes(t *testing.T) {
	st := tell(t)
	st.pods(st.podObject("holder", "h1", "10.42.0.5"), st.podObject("web-9", "w9", "10.42.0.9"), st.podObject("web-38", "w38", "10.42.0.38"))
	if got := st.field("ct.json", "backend"); got != nil {
		t.Errorf("backend %v before conntrack was read", got)
	}
	st.maps(ctDelta(true,
		ctEntry(client, "10.42.0.9:8080", ctOut, 9000, ctClosing), // closed: expires last, and is not it
		ctEntry(client, "10.42.0.10:8080", ctOut, 8000, ctLive),   // its backend died without a FIN
		ctEntry(client, "10.42.0.38:8080", ctOut, 8100, ctLive),   // the one
		ctEntry("10.42.0.5:40405", "10.42.0.9:8080", ctOut, 9999, ctLive),
		ctEntry("10.42.0.6:40404", "10.42.0.9:8080", ctOut, 9999, ctLive),
	))
	if got := st.field("ct.json", "backend"); got != "10.42.0.38:8080" {
		t.Errorf("backend %v, want 10.42.0.38:8080", got)
	}
	if got := st.field("ct.json", "backend_pod"); got != "web-38" {
		t.Errorf("backend_pod %v, want web-38", got)
	}
	if got := st.field("ct.json", "svc_entries"); got != 0.0 {
		t.Errorf("svc_entries %v, want 0", got)
	}
	// All closed: there is no live one, and the report says so.
	st.maps(ctDelta(false, ctEntry(client, "10.42.0.38:8080", ctOut, 100, ctClosing), ctEntry(client, "10.42.0.10:8080", ctOut, 100, ctClosing)))
	if got := st.field("ct.json", "backend"); got != nil {
		t.Errorf("backend %v with every entry closing, want null", got)
	}
}

func TestServiceEntriesAreThoseWithThePort(t *testing.T) {
	st := tell(t)
	st.pods(st.podObject("holder", "h1", "10.42.0.5"))
	st.maps(ctDelta(true,
		ctEntry(client, "10.43.0.7:80", ctSvc, 9000, ctLive),
		ctEntry("10.42.0.6:4040", "10.43.0.7:80", ctSvc, 9000, ctLive),
		ctEntry(client, "10.42.0.9:8080", ctOut, 9000, ctLive),
	))
	if got := st.field("ct.json", "svc_entries"); got != 1.0 {
		t.Errorf("svc_entries %v, want 1", got)
	}
}

func TestPeerInLogLine(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"2026-12-01T02:02:45Z connected local=10.42.0.49:40404 peer=10.43.212.229:80", "10.43.212.229:80"},
		{"connected peer=('10.43.212.229', 80) local=('10.42.0.49', 40404)", "10.43.212.229:80"},
		{"local ('10.42.0.49', 40404), getpeername() -> ('10.43.212.229', 80)", "10.43.212.229:80"},
		{"peer: [fd43::7]:80", "[fd43::7]:80"},
		{"peer=('fd43::7', 80, 0, 0)", "[fd43::7]:80"},
		{"peername = 10.43.0.1:443", "10.43.0.1:443"},
		{"2026-12-01T02:02:45Z connect 10.43.212.229:80 failed: connection refused", ""},
		{"read from peer failed, local=10.42.0.49:40404", ""},
		{"peer=10.43.212.229:80000", ""},
		{"", ""},
	} {
		if got, _ := peerIn(c.line); got != c.want {
			t.Errorf("peerIn(%q) = %q, want %q", c.line, got, c.want)
		}
	}
}

func TestLogOfTheNewContainerAndPod(t *testing.T) {
	st := tell(t)
	st.pods(st.podObject("holder", "h1", "10.42.0.5"))
	say := func(uid, container, text string) {
		st.event("podlog", &eventpb.LogLines{Namespace: "cca-dp", Pod: "holder", PodUid: uid, ContainerId: container, Lines: []*eventpb.LogLine{{TimeNs: 5, Text: text}}})
	}
	say("h1", "c1", "peer=10.43.0.7:80")
	if got := st.field("ct.json", "app_peer"); got != "10.43.0.7:80" {
		t.Fatalf("app_peer %v", got)
	}
	if got := st.s.LogEnds()["c1"]; got != 5 {
		t.Errorf("the log of c1 ends at %d, want 5", got)
	}
	say("h1", "c2", "starting")
	if got := st.field("ct.json", "app_peer"); got != nil {
		t.Errorf("app_peer %v is the old container's", got)
	}
	say("h1", "c2", "peer=10.43.0.7:80")
	st.pods(st.podObject("holder", "h2", "10.42.0.6"))
	if got := st.field("ct.json", "app_peer"); got != nil {
		t.Errorf("app_peer %v is the old pod's", got)
	}
}

func TestEndpointOfTheNewHolder(t *testing.T) {
	st := tell(t)
	cep := func(id int64, ip string) {
		st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_CILIUM_ENDPOINT, Objects: []*eventpb.KubeObject{{
			Namespace: "cca-dp", Name: "holder", CiliumEndpoint: &eventpb.CiliumEndpoint{EndpointId: id, Addresses: []string{ip}}}}})
	}
	st.pods(st.podObject("holder", "h1", "10.42.0.5"))
	cep(113, "10.42.0.5")
	st.pods(st.podObject("holder", "h2", "10.42.0.6"))
	if got := st.field("prog.json", "endpoint_id"); got != nil {
		t.Errorf("endpoint_id %v is that of the pod before", got)
	}
	cep(114, "10.42.0.6")
	st.event("agent", &eventpb.AgentObjects{Kind: "endpoint", Complete: true, Objects: []*eventpb.AgentObject{{Key: "114",
		Json: []byte(`{"id":114,"status":{"networking":{"interface-name":"lxc1","interface-index":21}}}`)}}})
	st.maps(&eventpb.MapDelta{Map: "cilium_policy_v2_00114", KeySize: 12, ValueSize: 24, Complete: true})
	st.event("host", &eventpb.HostState{
		TcFilters: &eventpb.TCFilters{},
		Attachments: &eventpb.Attachments{Attachments: []*eventpb.Attachment{
			{Attach: "tcx/egress", Ifindex: 21, Device: "lxc1", Program: "cil_to_container"},
			{Attach: "tcx/ingress", Ifindex: 20, Device: "lxc0", Program: "other"},
			{Attach: "tcx/ingress", Ifindex: 21, Device: "lxc1", Program: "cil_from_container"},
		}}})
	got := texts(st.file("prog.json"))
	want := `{"attach":"tcx/ingress","endpoint_id":114,"ifindex":21,"interface":"lxc1","policy_map":"cilium_policy_v2_00114","program":"cil_from_container","tc_filter_lines":0}`
	if got != want {
		t.Errorf("prog.json %s\nwant %s", got, want)
	}
}

func TestWholeAddressAndPort(t *testing.T) {
	lines := []string{"-d 10.43.0.10/32 -p tcp", "-d 10.43.0.1/32 -j DNAT --to 110.43.0.1:80", "--dport 30780 -m comment", "--dport 130780", "to 10.43.0.1.", "via 10.80.0.1 or 1.2.3.80"}
	for text, want := range map[string]int{"10.43.0.1": 2, "10.43.0.10": 1, "30780": 1, "80": 1} {
		if got := countWhole(lines, text); got != want {
			t.Errorf("%d lines with %s, want %d", got, text, want)
		}
	}
}
