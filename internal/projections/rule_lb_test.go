package projections

import (
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// wait lets seconds pass in which nothing happens.
func (st *story) wait(seconds int) {
	for range seconds {
		st.event("recorder", &eventpb.Tick{})
	}
}

// open lists the findings that last, as "rule subject"; less those of the recorder, whose sources are taken down to see what
// the others know.
func (st *story) open() []string {
	list := []string{}
	for _, f := range st.s.Findings() {
		if f.EndedNs == 0 && f.Rule != recorderGap.name {
			list = append(list, f.Rule+" "+f.Subject)
		}
	}
	slices.Sort(list)
	return list
}

func (st *story) wantOpen(when string, want ...string) {
	st.Helper()
	if got := st.open(); !slices.Equal(got, want) {
		var texts []string
		for _, f := range st.s.Findings() {
			texts = append(texts, f.Text)
		}
		st.Errorf("%s: findings %q, want %q\n%s", when, got, want, strings.Join(texts, "\n"))
	}
}

// wantText checks what the one finding of a rule says.
func (st *story) wantText(rule string, parts ...string) {
	st.Helper()
	for _, f := range st.s.Findings() {
		if f.Rule != rule {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(f.Text, part) {
				st.Errorf("%s says %q, want it to say %q", rule, f.Text, part)
			}
		}
		if f.Means() == "" || f.Level() == "" {
			st.Errorf("%s does not tell what it means", rule)
		}
		return
	}
	st.Errorf("no finding of %s", rule)
}

func (st *story) objects(kind eventpb.Kind, list ...*eventpb.KubeObject) {
	st.event("kube", &eventpb.KubeObjects{Kind: kind, Objects: list})
}

// svc makes a Service as the API server completes it.
func (st *story) svc(name string, change func(o *eventpb.KubeObject)) {
	o := &eventpb.KubeObject{Namespace: "cca-dp", Name: name, Uid: "uid-" + name, Service: &eventpb.Service{
		Type: "ClusterIP", ClusterIps: []string{webIP}, IpFamilies: []string{"IPv4"}, InternalTrafficPolicy: "Cluster",
		Ports: []*eventpb.ServicePort{{Protocol: "TCP", Port: 80, TargetPort: "8080"}},
	}}
	if change != nil {
		change(o)
	}
	st.objects(eventpb.Kind_KIND_SERVICE, o)
}

func (st *story) gone(kind eventpb.Kind, name string) {
	st.objects(kind, &eventpb.KubeObject{Namespace: "cca-dp", Name: name, Deleted: true})
}

// slice makes an EndpointSlice of web with port 8080: "10.42.0.9" is ready, "-…" not ready, "~…" terminating and serving, "!…"
// terminating and not serving.
func (st *story) slice(name string, change func(o *eventpb.KubeObject), addresses ...string) {
	st.objects(eventpb.Kind_KIND_ENDPOINT_SLICE, sliceObject(name, "web", change, addresses...))
}

func sliceObject(name, service string, change func(o *eventpb.KubeObject), addresses ...string) *eventpb.KubeObject {
	s := &eventpb.EndpointSlice{Service: service, AddressType: "IPv4", Ports: []*eventpb.EndpointPort{{Protocol: "TCP", Port: proto.Int32(8080)}}}
	for _, text := range addresses {
		ip := strings.TrimLeft(text, "-~!")
		e := &eventpb.Endpoint{Addresses: []string{ip}, Ready: proto.Bool(ip == text), Serving: proto.Bool(ip == text || text[0] == '~'),
			Terminating: proto.Bool(strings.ContainsAny(text[:1], "~!")), NodeName: "lab", TargetKind: "Pod", TargetName: "pod-" + ip}
		if netip.MustParseAddr(ip).Is6() {
			s.AddressType = "IPv6"
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	o := &eventpb.KubeObject{Namespace: "cca-dp", Name: name, EndpointSlice: s}
	if change != nil {
		change(o)
	}
	return o
}

// lbEntry is an entry of a services map; the layouts are those of bpf/lib/common.h.
type lbEntry struct {
	front         string
	proto, scope  byte
	slot          uint16
	count, qcount uint16
	flags         cilium.ServiceFlags
	backend       uint32
}

func (e lbEntry) bytes() []byte {
	a := netip.MustParseAddrPort(e.front)
	b := binary.BigEndian.AppendUint16(a.Addr().AsSlice(), a.Port())
	b = binary.NativeEndian.AppendUint16(b, e.slot)
	if e.proto == 0 {
		e.proto = 6
	}
	b = append(b, e.proto, e.scope, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, e.backend)
	b = binary.NativeEndian.AppendUint16(b, e.count)
	b = binary.BigEndian.AppendUint16(b, 7)
	b = binary.NativeEndian.AppendUint16(b, uint16(e.flags))
	return binary.NativeEndian.AppendUint16(b, e.qcount)
}

// lbBackend is an entry of a backends map; the id is made of the last two bytes of the address, and the port.
type lbBackend struct {
	address string
	proto   byte
	state   cilium.BackendState
}

func (b lbBackend) id() uint32 {
	a := netip.MustParseAddrPort(b.address)
	bytes := a.Addr().AsSlice()
	return uint32(binary.BigEndian.Uint16(bytes[len(bytes)-2:]))<<16 | uint32(a.Port())
}

func (b lbBackend) bytes() []byte {
	a := netip.MustParseAddrPort(b.address)
	if b.proto == 0 {
		b.proto = 6
	}
	e := binary.NativeEndian.AppendUint32(nil, b.id())
	e = binary.BigEndian.AppendUint16(append(e, a.Addr().AsSlice()...), a.Port())
	return append(e, b.proto, byte(b.state), 0, 0, 0, 0)
}

// front makes the map hold a frontend with these backends in its slots, the last qcount of them behind the count, and no other
// slot of it up to 9.
func (st *story) front(head lbEntry, backends ...lbBackend) {
	kinds := map[bool][2]string{false: {"cilium_lb4_services_v2", "cilium_lb4_backends_v3"}, true: {"cilium_lb6_services_v2", "cilium_lb6_backends_v3"}}
	v6 := netip.MustParseAddrPort(head.front).Addr().Is6()
	key, value := uint32(12), uint32(12)
	if v6 {
		key, value = 24, 24
	}
	services := &eventpb.MapDelta{Map: kinds[v6][0], KeySize: key, ValueSize: 12}
	rows := &eventpb.MapDelta{Map: kinds[v6][1], KeySize: 4, ValueSize: value}
	for slot := uint16(1); slot < 10; slot++ {
		e := head
		e.slot, e.count, e.qcount = slot, 0, 0
		if int(slot) > len(backends) {
			services.Deletes = append(services.Deletes, e.bytes()[:key]...)
			continue
		}
		b := backends[slot-1]
		e.backend = b.id()
		services.Upserts = append(services.Upserts, e.bytes()...)
		rows.Upserts = append(rows.Upserts, b.bytes()...)
	}
	head.count = uint16(len(backends)) - head.qcount
	services.Upserts = append(services.Upserts, head.bytes()...)
	st.maps(services, rows)
}

// webFront makes the map hold web's frontend with these active backends.
func (st *story) webFront(addresses ...string) {
	var list []lbBackend
	for _, a := range addresses {
		list = append(list, lbBackend{address: a})
	}
	st.front(lbEntry{front: webIP + ":80"}, list...)
}

// row makes the agent's table have a row; of a backend "-…" is unhealthy, "~…" terminating.
func (st *story) row(key, service, reconciled, trouble string, backends ...string) {
	st.event("agent", &eventpb.AgentObjects{Kind: "frontend", Objects: []*eventpb.AgentObject{rowObject(key, service, reconciled, trouble, backends...)}})
}

func rowObject(key, service, reconciled, trouble string, backends ...string) *eventpb.AgentObject {
	type backend struct {
		Address, ServiceName string
		State                int
		Unhealthy            bool
	}
	v := struct {
		Address, ServiceName, Type string
		Backends                   []backend
		Status                     struct{ error string }
	}{Address: key, ServiceName: service, Type: "ClusterIP"}
	for _, text := range backends {
		b := backend{Address: strings.TrimLeft(text, "-~"), ServiceName: service, Unhealthy: text[0] == '-'}
		if text[0] == '~' {
			b.State = 1
		}
		v.Backends = append(v.Backends, b)
	}
	text, _ := json.Marshal(v)
	if trouble != "" {
		text = []byte(strings.Replace(string(text), `"Status":{}`, `"Status":{"error":`+string(must(json.Marshal(trouble)))+`}`, 1))
	}
	return &eventpb.AgentObject{Key: key, Json: text, Reconciled: reconciled, ReconciledNs: 1e9}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// settled is web with two ready backends that API, agent and map agree about.
func settled(t *testing.T) *story {
	st := tell(t)
	st.event("agent", &eventpb.AgentObjects{Kind: "status", Complete: true, Objects: []*eventpb.AgentObject{{Json: []byte(`{"kube-proxy-replacement":{"mode":"True"}}`)}}})
	st.objects(eventpb.Kind_KIND_NODE, &eventpb.KubeObject{Name: "lab", Node: &eventpb.Node{InternalIps: []string{"192.168.0.1"}, Zone: "a"}})
	st.svc("web", nil)
	st.slice("web-1", nil, "10.42.0.9", "10.42.0.38")
	st.row(webIP+":80/TCP", "cca-dp/web", "Done", "", "10.42.0.9:8080/TCP", "10.42.0.38:8080/TCP")
	st.webFront("10.42.0.9:8080", "10.42.0.38:8080")
	st.wait(20)
	st.wantOpen("when all agree")
	return st
}
