package explain

import (
	"context"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"google.golang.org/protobuf/proto"
)

// tape is a recording in memory: event i has position i+1.
type tape [][]byte

func (t *tape) add(bodies ...proto.Message) *tape {
	for _, b := range bodies {
		e := events.New(b)
		e.Source, e.Node, e.SeenNs = "test", "n", int64(len(*t)+1)*1_000_000_000
		data, err := proto.Marshal(e)
		if err != nil {
			panic(err)
		}
		*t = append(*t, data)
	}
	return t
}

func (t *tape) Bounds() (first, last uint64, err error) { return 1, uint64(len(*t)), nil }

func (t *tape) Read(_ context.Context, from, to uint64, fn func(journal.Record) error) error {
	for i, data := range *t {
		if seq := uint64(i + 1); seq >= from && (to == 0 || seq <= to) {
			if err := fn(journal.Record{Seq: seq, Data: data}); err != nil {
				return err
			}
		}
	}
	return nil
}

// explained is the text of an explanation, a sentence on each line with the events behind it.
func (t *tape) explained(test *testing.T, s Subject) string {
	test.Helper()
	st := projections.NewState()
	for i, data := range *t {
		if err := st.ApplyRecord(uint64(i+1), data); err != nil {
			test.Fatal(err)
		}
	}
	e, err := Of(test.Context(), t, st, s)
	if err != nil {
		test.Fatal(err)
	}
	var lines []string
	for _, s := range e.Statements {
		lines = append(lines, s.Text+" "+seqs(s.Seq))
	}
	for _, u := range e.Unknown {
		lines = append(lines, "unknown: "+u.What+" – "+u.Source)
	}
	return strings.Join(lines, "\n")
}

func ip4(s string) []byte { a := netip.MustParseAddr(s).As4(); return a[:] }

func be(n uint16) []byte   { return binary.BigEndian.AppendUint16(nil, n) }
func le(n uint16) []byte   { return binary.LittleEndian.AppendUint16(nil, n) }
func le32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func join(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// serviceEntry is an entry of cilium_lb4_services_v2 (struct lb4_key, lb4_service).
func serviceEntry(addr string, port, slot, count, id, flags uint16, backend uint32) []byte {
	return join(ip4(addr), be(port), le(slot), []byte{6, 0, 0, 0}, le32(backend), le(count), be(id), le(flags), le(0))
}

// backendEntry is an entry of cilium_lb4_backends_v3 (struct lb4_backend).
func backendEntry(id uint32, addr string, port uint16, state byte) []byte {
	return join(le32(id), ip4(addr), be(port), []byte{6, state, 0, 0, 0, 0})
}

// ctEntry is an entry of cilium_ct4_global: struct ipv4_ct_tuple, and a ct_entry that holds only its backend.
func ctEntry(daddr, saddr string, dport, sport uint16, flags byte, backend uint32) []byte {
	value := make([]byte, 56)
	binary.LittleEndian.PutUint32(value[8:], backend)
	return join(ip4(daddr), ip4(saddr), be(dport), be(sport), []byte{6, flags}, value)
}

func whole(name string, key, value uint32, entries ...[]byte) *eventpb.MapDeltas {
	return &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{{Map: name, KeySize: key, ValueSize: value, Complete: true, Upserts: join(entries...)}}}
}

func services(entries ...[]byte) proto.Message {
	return whole("cilium_lb4_services_v2", 12, 12, entries...)
}
func backends(entries ...[]byte) proto.Message {
	return whole("cilium_lb4_backends_v3", 4, 12, entries...)
}

func theService(ports ...*eventpb.ServicePort) proto.Message {
	return &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_SERVICE, Complete: true, Objects: []*eventpb.KubeObject{{Namespace: "shop", Name: "cart",
		Service: &eventpb.Service{Type: "NodePort", ClusterIps: []string{"10.96.0.7"}, Selector: map[string]string{"app": "cart"}, Ports: ports}}}}
}

func theSlice(list ...*eventpb.Endpoint) proto.Message {
	return &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_ENDPOINT_SLICE, Complete: true, Objects: []*eventpb.KubeObject{{Namespace: "shop", Name: "cart-x",
		EndpointSlice: &eventpb.EndpointSlice{Service: "cart", Ports: []*eventpb.EndpointPort{{Port: proto.Int32(8080)}}, Endpoints: list}}}}
}

func at(addr string, ready, terminating bool) *eventpb.Endpoint {
	return &eventpb.Endpoint{Addresses: []string{addr}, TargetName: "cart-" + addr, Ready: &ready, Serving: proto.Bool(true), Terminating: &terminating}
}

var port80 = &eventpb.ServicePort{Port: 80, Protocol: "TCP", TargetPort: "8080", NodePort: 30080}

func want(t *testing.T, got string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(got, l) {
			t.Errorf("not said: %s\nsaid:\n%s", l, got)
		}
	}
}

func TestSlotsThatNobodyWants(t *testing.T) {
	tp := (&tape{}).add(theService(port80), theSlice(at("10.0.0.1", true, false), at("10.0.0.2", false, true)),
		backends(backendEntry(1, "10.0.0.1", 8080, 0), backendEntry(2, "10.0.0.2", 8080, 0), backendEntry(3, "10.0.0.3", 8080, 0)),
		services(serviceEntry("10.96.0.7", 80, 0, 4, 9, 0, 0), serviceEntry("10.96.0.7", 80, 1, 0, 9, 0, 1), serviceEntry("10.96.0.7", 80, 2, 0, 9, 0, 2),
			serviceEntry("10.96.0.7", 80, 3, 0, 9, 0, 3), serviceEntry("10.96.0.7", 80, 4, 0, 9, 0, 77)))
	got := tp.explained(t, Service("shop", "cart"))
	want(t, got,
		"Slot 2 of 10.96.0.7:80/TCP still names 10.0.0.2:8080, which is serving, terminating by the API: a new connection may go there. seq:2 seq:3 seq:4",
		"Slot 3 of 10.96.0.7:80/TCP still names 10.0.0.3:8080, which no EndpointSlice has",
		"Slot 4 of 10.96.0.7:80/TCP names backend 77, which is not in the map of backends",
		"unknown: which frontends the agent has – agent")
	if strings.Contains(got, "agree") {
		t.Errorf("they do not agree:\n%s", got)
	}
}

func TestNobodyReadyTakesThoseThatTerminate(t *testing.T) {
	tp := (&tape{}).add(theService(port80), theSlice(at("10.0.0.2", false, true)), backends(backendEntry(2, "10.0.0.2", 8080, 0)),
		services(serviceEntry("10.96.0.7", 80, 0, 1, 9, 0, 0), serviceEntry("10.96.0.7", 80, 1, 0, 9, 0, 2)))
	want(t, tp.explained(t, Service("shop", "cart")), "no endpoint is ready, so those that still serve while they terminate are taken")
}

// Whether a request is refused is the agent's setting: without it nothing is said of it.
func TestNoBackendsWithAndWithoutTheSetting(t *testing.T) {
	tp := (&tape{}).add(theService(port80), theSlice(), services(serviceEntry("10.96.0.7", 80, 0, 0, 9, 0, 0)))
	got := tp.explained(t, Service("shop", "cart"))
	want(t, got, "10.96.0.7:80/TCP has no backend", "unknown: whether a request to 10.96.0.7:80/TCP is refused or dropped – agent")
	if strings.Contains(got, "refused at once") {
		t.Errorf("nothing supports that it is refused:\n%s", got)
	}
	tp.add(&eventpb.AgentObjects{Kind: "config", Complete: true, Objects: []*eventpb.AgentObject{{Json: []byte(`{"ServiceNoBackendResponse":"drop"}`)}}})
	want(t, tp.explained(t, Service("shop", "cart")), "A request to 10.96.0.7:80/TCP times out, because it has no backend and the agent is set to drop (ServiceNoBackendResponse=drop). seq:3 seq:4")
}

func TestPacketPathTranslated(t *testing.T) {
	// dport and sport of an OUT entry are the first packet's, its addresses those of the reply; a SVC entry has it
	// the other way round.
	tp := (&tape{}).add(whole("cilium_ct4_global", 14, 56,
		ctEntry("10.0.0.9", "10.0.0.1", 8080, 40000, 0, 0), ctEntry("10.96.0.7", "10.0.0.9", 40000, 80, 4, 1)))
	got := tp.explained(t, Connection(netip.MustParseAddrPort("10.0.0.9:40000")))
	want(t, got, "Conntrack has a SVC entry from 10.0.0.9:40000 to the frontend 10.96.0.7:80: the packet path translated it, to backend 1. seq:1",
		"unknown: which pod has the address 10.0.0.9", "unknown: where the client's socket is connected to – host")
	if strings.Contains(got, "connect()") {
		t.Errorf("no socket was translated:\n%s", got)
	}
}

func TestListenerCollidesWithNodePort(t *testing.T) {
	tp := (&tape{}).add(theService(port80), backends(backendEntry(1, "10.0.0.1", 8080, 0)),
		services(serviceEntry("0.0.0.0", 30080, 0, 1, 9, 2, 0), serviceEntry("0.0.0.0", 30080, 1, 0, 9, 0, 1)),
		&eventpb.HostState{Listeners: &eventpb.Listeners{Sockets: []*eventpb.Socket{{Protocol: "tcp", Local: "0.0.0.0:30080", State: "LISTEN"}, {Protocol: "tcp", Local: "0.0.0.0:3008", State: "LISTEN"}}},
			Attachments: &eventpb.Attachments{Attachments: []*eventpb.Attachment{{Attach: "tcx/ingress", Ifindex: 2, Device: "eth0", Program: "cil_from_netdev"}}}})
	want(t, tp.explained(t, Port(30080)),
		"0.0.0.0:30080/TCP is the NodePort frontend of Service shop/cart: what is sent there goes to the one backend 10.0.0.1:8080. seq:1 seq:2 seq:3",
		"A socket listens on the port too (tcp 0.0.0.0:30080): what comes in from the network is taken by cil_from_netdev at tcx/ingress of eth0 before it, and does not reach it. seq:3 seq:4",
		"unknown: whether a rule of iptables names the port – host", "unknown: what a request to the port gets – probe")
}

func TestHostPortOfAPodThatIsGone(t *testing.T) {
	tp := (&tape{}).add(backends(backendEntry(1, "10.0.0.1", 8080, 0)), services(serviceEntry("0.0.0.0", 8081, 0, 1, 9, 8, 0), serviceEntry("0.0.0.0", 8081, 1, 0, 9, 0, 1)))
	const left = "No pod of this node has the address 10.0.0.1"
	if got := tp.explained(t, Port(8081)); strings.Contains(got, left) {
		t.Errorf("pods were never listed, and it is said:\n%s", got)
	}
	tp.add(&eventpb.KubeObjects{Kind: eventpb.Kind_KIND_POD, Complete: true})
	want(t, tp.explained(t, Port(8081)), left+": the frontend is left over from a pod that is gone. seq:1 seq:2 seq:3")
}

// A deletion and a later dump are witnesses as much as an update.
func TestWitnessIsTheLastEventThatSetTheFact(t *testing.T) {
	entryBytes := serviceEntry("10.96.0.7", 80, 0, 0, 9, 0, 0)
	f := fact{entry, "cilium_lb4_services_v2", string(entryBytes[:12])}
	w := newWitnesses([]fact{f})
	tp := (&tape{}).add(services(entryBytes), &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{{Map: f.name, KeySize: 12, ValueSize: 12, Deletes: entryBytes[:12]}}})
	for i, seqWant := range []uint64{1, 2} {
		e := &eventpb.Event{}
		if err := proto.Unmarshal((*tp)[i], e); err != nil {
			t.Fatal(err)
		}
		w.see(uint64(i+1), e)
		if w.seq[f] != seqWant {
			t.Errorf("witness seq:%d, want seq:%d", w.seq[f], seqWant)
		}
	}
	if _, ok := w.of([]fact{f, theConfig}); ok {
		t.Error("a statement with one fact that nothing supports is made")
	}
}
