package projections

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// svcEntry is a TCP entry of direction SVC that leads to a backend.
func svcEntry(client, frontend string, revNAT uint16, flags uint16, backend uint32) []byte {
	b := ctEntry(client, frontend, ctSvc, 9000, flags)
	value := b[len(b)-56:]
	binary.NativeEndian.PutUint64(value[8:], uint64(backend))
	binary.BigEndian.PutUint16(value[38:], revNAT)
	return b
}

// translation is an entry of cilium_lb4_reverse_sk: struct ipv4_revnat_tuple and ipv4_revnat_entry of bpf/lib/lb.h.
func translation(cookie uint64, backend, frontend string, revNAT uint16) []byte {
	at, front := netip.MustParseAddrPort(backend), netip.MustParseAddrPort(frontend)
	b := binary.NativeEndian.AppendUint64(nil, cookie)
	b = binary.BigEndian.AppendUint16(append(b, at.Addr().AsSlice()...), at.Port())
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(append(b, front.Addr().AsSlice()...), front.Port())
	return binary.BigEndian.AppendUint16(b, revNAT)
}

// affinity is an entry of cilium_lb4_affinity: struct lb4_affinity_key and lb_affinity_val of bpf/lib/common.h.
func affinity(client uint64, netns bool, revNAT uint16, backend uint32, lastUsed uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, client)
	b = binary.BigEndian.AppendUint16(b, revNAT)
	flags := byte(0)
	if netns {
		flags = 1
	}
	b = append(b, flags, 0, 0, 0, 0, 0)
	b = binary.NativeEndian.AppendUint64(b, lastUsed)
	b = binary.NativeEndian.AppendUint32(b, backend)
	return append(b, 0, 0, 0, 0)
}

type connectionsJSON struct {
	Connections        []connectionRow
	Omitted            int
	Affinities         []affinityRow
	Conntrack          []conntrackRow
	TranslationsOfPods int `json:"translations_of_pods_sockets"`
}

func (st *story) connections() (f connectionsJSON) {
	st.Helper()
	text := []byte(st.text("connections.json"))
	validate(st.T, "connections.json", text)
	if err := json.Unmarshal(text, &f); err != nil {
		st.Fatal(err)
	}
	return f
}

// line is a row as short as it can be compared.
func (r connectionRow) line() string {
	show := func(p *string) string {
		if p == nil {
			return "-"
		}
		return *p
	}
	text := fmt.Sprintf("%s %s %s %s %s %s %s %s %s", r.Client, show(r.ClientPod), r.Frontend, show(r.Service), r.Path, show(r.Backend), show(r.BackendPod), show(r.BackendState), show(r.SocketState))
	if r.Outlived {
		text += " outlived"
	}
	if deref(r.Closing) {
		text += " closing"
	}
	return text
}

func (st *story) wantConnections(when string, want ...string) {
	st.Helper()
	var got []string
	for _, r := range st.connections().Connections {
		got = append(got, r.line())
	}
	if !slices.Equal(got, want) {
		st.Errorf("%s:\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func backendID(address string) uint32 { return lbBackend{address: address}.id() }

func (st *story) leave(backends ...string) {
	d := &eventpb.MapDelta{Map: "cilium_lb4_backends_v3", KeySize: 4, ValueSize: 12}
	for _, b := range backends {
		d.Deletes = binary.NativeEndian.AppendUint32(d.Deletes, backendID(b))
	}
	st.maps(d)
}

func TestConnectionsOfBothPaths(t *testing.T) {
	const a, b = "10.42.0.9:8080", "10.42.0.38:8080"
	st := settled(t)
	st.pods(st.podObject("holder", "h1", "10.42.0.5"), st.podObject("web-a", "w1", "10.42.0.9"))
	st.maps(ctDelta(true,
		svcEntry("192.168.0.9:5000", webIP+":80", 7, ctLive, backendID(a)),
		svcEntry("192.168.0.9:5001", webIP+":80", 7, ctClosing, backendID(b)),
		ctEntry("10.42.0.5:40404", b, ctOut, 9000, ctLive)))
	st.maps(&eventpb.MapDelta{Map: "cilium_lb4_reverse_sk", KeySize: 16, ValueSize: 8, Complete: true,
		Upserts: join([][]byte{translation(77, b, webIP+":80", 7), translation(78, b, webIP+":80", 7)})})
	st.event("host", &eventpb.HostState{PodSockets: []*eventpb.PodSockets{{Namespace: "cca-dp", Pod: "holder", PodUid: "h1", NetnsCookie: 4711, Sockets: []*eventpb.Socket{
		{Protocol: "tcp6", Local: "[::ffff:10.42.0.5]:40404", Remote: "[::ffff:10.42.0.38]:8080", State: "ESTABLISHED", Cookie: 77},
		{Protocol: "tcp", Local: "10.42.0.5:40405", Remote: "10.42.0.38:8080", State: "ESTABLISHED", Cookie: 1}, // straight to the pod
	}}}})
	live := []string{
		"10.42.0.5:40404 cca-dp/holder 10.43.0.7:80 cca-dp/web socket_lb 10.42.0.38:8080 cca-dp/pod-10.42.0.38 active ESTABLISHED",
		"192.168.0.9:5000 - 10.43.0.7:80 cca-dp/web packet 10.42.0.9:8080 cca-dp/web-a active -",
		"192.168.0.9:5001 - 10.43.0.7:80 cca-dp/web packet 10.42.0.38:8080 cca-dp/pod-10.42.0.38 active - closing",
	}
	st.wantConnections("while all backends are there", live...)
	if got := st.connections(); got.TranslationsOfPods != 1 || got.Conntrack[0].Entries != 3 {
		t.Errorf("%d translations of sockets, conntrack %v", got.TranslationsOfPods, got.Conntrack)
	}

	st.slice("web-1", nil, "10.42.0.9")
	st.row(webFrontend, "cca-dp/web", "Done", "", "10.42.0.9:8080/TCP")
	st.webFront(a)
	st.wantConnections("when a backend has no slot any more",
		strings.Replace(strings.Replace(live[0], "cca-dp/pod-10.42.0.38 active", "- -", 1), "ESTABLISHED", "ESTABLISHED outlived", 1),
		live[1], strings.Replace(strings.Replace(live[2], "cca-dp/pod-10.42.0.38", "-", 1), "- closing", "- outlived closing", 1))
	st.leave(b)
	st.wantConnections("when it is gone",
		"10.42.0.5:40404 cca-dp/holder 10.43.0.7:80 cca-dp/web socket_lb 10.42.0.38:8080 - gone ESTABLISHED outlived",
		live[1],
		"192.168.0.9:5001 - 10.43.0.7:80 cca-dp/web packet 10.42.0.38:8080 - gone - outlived closing")
	if at := st.connections().Connections[0].BackendGoneAt; at == nil || *at != *stamp(st.s.SeenNs) {
		t.Errorf("it went at %v, want %s", at, *stamp(st.s.SeenNs))
	}
	st.wait(10)
	st.wantOpen("of connections that are closing")
}

// Of many connections those are listed that tell most.
func TestManyConnections(t *testing.T) {
	const a, gone = "10.42.0.9:8080", "10.42.0.77:8080"
	st := settled(t)
	var entries [][]byte
	for i := range 6000 {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}), 5000).String()
		backend, flags := a, uint16(ctClosing)
		switch {
		case i%1000 == 17:
			backend = gone
		case i%10 == 0:
			flags = ctLive
		}
		entries = append(entries, svcEntry(client, webIP+":80", 7, flags, backendID(backend)))
	}
	st.maps(ctDelta(true, entries...))
	f := st.connections()
	outlived, live := 0, 0
	for _, r := range f.Connections {
		if r.Outlived {
			outlived++
		} else if !*r.Closing {
			live++
		}
	}
	if len(f.Connections) != 1000 || f.Omitted != 5000 || outlived != 6 || live != 600 {
		t.Errorf("%d listed, %d left out; %d outlived, want 6, %d live, want 600", len(f.Connections), f.Omitted, outlived, live)
	}
}

func TestAffinities(t *testing.T) {
	const a = "10.42.0.9:8080"
	st := settled(t)
	st.event("recorder", &eventpb.Session{Sources: []string{"kube"}, WallNs: 1_000_000_000e9, MonotonicNs: 5000e9})
	st.event("agent", &eventpb.AgentObjects{Kind: "status", Complete: true, Objects: []*eventpb.AgentObject{{Json: []byte(`{"clock-source":{"mode":"ktime"}}`)}}})
	head := lbEntry{front: webIP + ":80", flags: 1 << 4, backend: 600} // session affinity of 600 s
	st.front(head, lbBackend{address: a})
	st.event("host", &eventpb.HostState{
		PodSockets: []*eventpb.PodSockets{{Namespace: "cca-dp", Pod: "holder", PodUid: "h1", NetnsCookie: 4711}},
		Listeners:  &eventpb.Listeners{NetnsCookie: 1},
	})
	client := uint64(binary.NativeEndian.Uint32([]byte{192, 168, 0, 9}))
	st.maps(&eventpb.MapDelta{Map: "cilium_lb4_affinity", KeySize: 16, ValueSize: 16, Complete: true, Upserts: join([][]byte{
		affinity(client, false, 7, backendID(a), 4990), affinity(4711, true, 7, backendID(a), 5000), affinity(1, true, 7, 99, 5001)})})
	rows := st.connections().Affinities
	if len(rows) != 3 {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	for i, want := range []string{
		`{"service":"cca-dp/web","frontends":["10.43.0.7:80/TCP"],"client":null,"netns_cookie":1,"node":true,"client_pod":null,"backend_id":99,"backend":null,"backend_state":"gone","affinity_seconds":600,"used_at":"2001-09-09T01:46:41.000000000Z","until":"2001-09-09T01:56:41.000000000Z"}`,
		`{"service":"cca-dp/web","frontends":["10.43.0.7:80/TCP"],"client":null,"netns_cookie":4711,"node":false,"client_pod":"cca-dp/holder","backend_id":` + fmt.Sprint(backendID(a)) + `,"backend":"10.42.0.9:8080","backend_state":"active","affinity_seconds":600,"used_at":"2001-09-09T01:46:40.000000000Z","until":"2001-09-09T01:56:40.000000000Z"}`,
		`{"service":"cca-dp/web","frontends":["10.43.0.7:80/TCP"],"client":"192.168.0.9","netns_cookie":null,"node":false,"client_pod":null,"backend_id":` + fmt.Sprint(backendID(a)) + `,"backend":"10.42.0.9:8080","backend_state":"active","affinity_seconds":600,"used_at":"2001-09-09T01:46:30.000000000Z","until":"2001-09-09T01:56:30.000000000Z"}`,
	} {
		if got := string(oneLine(rows[i])); got != want {
			t.Errorf("row %d\n%s\nwant\n%s", i, got, want)
		}
	}
}

// The connection waits for a backend that is gone.
func TestStaleConntrack(t *testing.T) {
	const b = "10.42.0.38:8080"
	st := settled(t)
	entry := svcEntry("192.168.0.9:5001", webIP+":80", 7, ctLive, backendID(b))
	st.maps(ctDelta(true))
	st.maps(ctDelta(false, entry, svcEntry("192.168.0.9:5002", webIP+":80", 7, ctClosing, backendID(b))))
	made := *stamp(st.s.SeenNs)
	st.slice("web-1", nil, "10.42.0.9")
	st.row(webFrontend, "cca-dp/web", "Done", "", "10.42.0.9:8080/TCP")
	st.webFront("10.42.0.9:8080")
	st.leave(b)
	went := *stamp(st.s.SeenNs)
	st.wait(4)
	st.wantOpen("when it has just gone")
	st.wait(1)
	st.wantOpen("when the entry stays", "stale-conntrack backend "+fmt.Sprint(backendID(b)))
	st.wantText("stale-conntrack", "1 conntrack entry (made at "+made+")", webIP+":80/TCP", "it was "+b+"/TCP and went at "+went)
	st.maps(&eventpb.MapDelta{Map: "cilium_ct4_global", KeySize: 14, ValueSize: 56, Deletes: entry[:14]})
	st.wantOpen("when the entry has gone")
}

// A finding ends though what it was about went while its sources were not up.
func TestWhatWentWhileNobodyJudged(t *testing.T) {
	st := settled(t)
	st.slice("web-1", nil, "10.42.0.9")
	st.wait(20)
	st.wantOpen("of a backend that stays", "stale-backend "+webFrontend+" 10.42.0.38:8080/TCP")
	st.event("kube", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN})
	st.event("agent", &eventpb.AgentObjects{Kind: "frontend", Complete: true})
	st.maps(&eventpb.MapDelta{Map: "cilium_lb4_services_v2", KeySize: 12, ValueSize: 12, Complete: true})
	st.gone(eventpb.Kind_KIND_SERVICE, "web")
	st.up("kube")
	st.wait(20)
	st.wantOpen("when the frontend went unseen")
}
