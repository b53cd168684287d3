package projections

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/profiles"
	"google.golang.org/protobuf/proto"
)

// story folds events as a recorder would have stored them, and reads the files that they make.
type story struct {
	*testing.T
	s   *State
	now int64 // of the next event; 0: a second after the last one
}

func tell(t *testing.T) *story {
	t.Helper()
	text, err := profiles.FS.ReadFile("cca-datapath.yaml")
	if err != nil {
		t.Fatal(err)
	}
	st := &story{T: t, s: NewState()}
	st.event("recorder", &eventpb.Session{ProfileYaml: string(text), Sources: []string{"kube", "bpfmap", "agent", "host", "podlog", "probe"}})
	for _, src := range []string{"kube", "bpfmap", "agent", "host", "podlog", "probe"} {
		st.up(src)
	}
	return st
}

func (st *story) event(source string, body proto.Message) {
	e := events.New(body)
	e.Source, e.Session, e.Node, e.SeenNs = source, "s1", "lab", cmp.Or(st.now, int64(st.s.Seq+1)*1e9)
	st.s.Apply(st.s.Seq+1, e)
}

func (st *story) up(source string) {
	st.event(source, &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_UP})
}

// file returns a rendered file's fields; nil when there is no such file.
func (st *story) file(name string) map[string]any {
	st.Helper()
	for _, f := range st.s.Files() {
		if f.Name == name && f.Data != nil {
			var v map[string]any
			if err := json.Unmarshal(f.Data, &v); err != nil {
				st.Fatalf("%s: %v", name, err)
			}
			return v
		}
	}
	return nil
}

func (st *story) field(file, key string) any {
	st.Helper()
	return st.file(file)[key]
}

func (st *story) text(name string) string {
	for _, f := range st.s.Files() {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// texts makes a list of strings comparable.
func texts(list any) string {
	b, _ := json.Marshal(list)
	return string(b)
}

const webIP = "10.43.0.7"

func (st *story) service(name, uid, ip string) {
	st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_SERVICE, Objects: []*eventpb.KubeObject{{
		Namespace: "cca-dp", Name: name, Uid: uid,
		Service: &eventpb.Service{Type: "ClusterIP", ClusterIps: []string{ip}, Ports: []*eventpb.ServicePort{{Protocol: "TCP", Port: 80, TargetPort: "8080"}}},
	}}})
}

// ready makes one EndpointSlice with these addresses; those with a leading "-" are not ready.
func (st *story) ready(addresses ...string) {
	slice := &eventpb.EndpointSlice{Service: "web", AddressType: "IPv4", Ports: []*eventpb.EndpointPort{{Protocol: "TCP", Port: proto.Int32(8080)}}}
	for _, a := range addresses {
		ip, notReady := strings.CutPrefix(a, "-")
		slice.Endpoints = append(slice.Endpoints, &eventpb.Endpoint{
			Addresses: []string{ip}, Ready: proto.Bool(!notReady), TargetKind: "Pod", TargetName: "web-" + ip[strings.LastIndex(ip, ".")+1:],
		})
	}
	st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_ENDPOINT_SLICE, Complete: true,
		Objects: []*eventpb.KubeObject{{Namespace: "cca-dp", Name: "web-1", EndpointSlice: slice}}})
}

// The layouts are Cilium's: bpf/lib/common.h, lb4_key, lb4_service, lb4_backend, ipv4_ct_tuple, ct_entry.

func serviceEntry(frontend string, slot, count, revNAT uint16, backend uint32) []byte {
	a := netip.MustParseAddrPort(frontend)
	b := a.Addr().AsSlice()
	b = binary.BigEndian.AppendUint16(b, a.Port())
	b = binary.NativeEndian.AppendUint16(b, slot)
	b = append(b, 6, 0, 0, 0) // TCP, external scope
	b = binary.NativeEndian.AppendUint32(b, backend)
	b = binary.NativeEndian.AppendUint16(b, count)
	b = binary.BigEndian.AppendUint16(b, revNAT)
	return append(b, 0, 0, 0, 0)
}

func backendEntry(id uint32, address string) []byte {
	a := netip.MustParseAddrPort(address)
	b := binary.NativeEndian.AppendUint32(nil, id)
	b = append(b, a.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, a.Port())
	return append(b, 6, 0, 0, 0, 0, 0)
}

func (st *story) maps(d ...*eventpb.MapDelta) {
	st.event("bpfmap", &eventpb.MapDeltas{Maps: d})
}

func servicesDelta(complete bool, entries ...[]byte) *eventpb.MapDelta {
	return &eventpb.MapDelta{Map: "cilium_lb4_services_v2", KeySize: 12, ValueSize: 12, Complete: complete, Upserts: join(entries)}
}

func backendsDelta(complete bool, entries ...[]byte) *eventpb.MapDelta {
	return &eventpb.MapDelta{Map: "cilium_lb4_backends_v3", KeySize: 4, ValueSize: 12, Complete: complete, Upserts: join(entries)}
}

func join(entries [][]byte) []byte {
	var out []byte
	for _, e := range entries {
		out = append(out, e...)
	}
	return out
}

// web makes the frontend's slots hold these backends, ids by position.
func (st *story) web(backends ...string) {
	front := webIP + ":80"
	slots := [][]byte{}
	var rows [][]byte
	// Shuffled on purpose: a hash map has no order.
	for i := len(backends) - 1; i >= 0; i-- {
		slots = append(slots, serviceEntry(front, uint16(i+1), 0, 7, uint32(i+10)))
		rows = append(rows, backendEntry(uint32(i+10), backends[i]))
	}
	slots = append(slots, serviceEntry(front, 0, uint16(len(backends)), 7, 0))
	st.maps(servicesDelta(true, slots...), backendsDelta(true, rows...))
}

func (st *story) podObject(name, uid, ip string) *eventpb.KubeObject {
	return &eventpb.KubeObject{Namespace: "cca-dp", Name: name, Uid: uid, Pod: &eventpb.Pod{NodeName: "lab", PodIps: []string{ip}, Ready: true}}
}

func (st *story) pods(objects ...*eventpb.KubeObject) {
	st.event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_POD, Complete: true, Objects: objects})
}

const (
	ctOut = 0
	ctSvc = 4
	// Both sides have sent FIN, and a packet that is no SYN was seen.
	ctClosing = 0x13
	ctLive    = 0x10
)

// ctEntry is a TCP entry of the connection source → destination, as the kernel holds it: of direction OUT the
// addresses stand as in a reply and the ports as in the first packet; of SVC the other way round.
func ctEntry(source, destination string, direction byte, lifetime uint32, flags uint16) []byte {
	s, d := netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)
	first, second, dport, sport := s.Addr(), d.Addr(), d.Port(), s.Port()
	if direction == ctSvc {
		first, second, dport, sport = d.Addr(), s.Addr(), s.Port(), d.Port()
	}
	b := append(first.AsSlice(), second.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, dport)
	b = binary.BigEndian.AppendUint16(b, sport)
	b = append(b, 6, direction)
	value := make([]byte, 56)
	binary.NativeEndian.PutUint32(value[32:], lifetime)
	binary.NativeEndian.PutUint16(value[36:], flags)
	return append(b, value...)
}

func ctDelta(complete bool, entries ...[]byte) *eventpb.MapDelta {
	return &eventpb.MapDelta{Map: "cilium_ct4_global", KeySize: 14, ValueSize: 56, Complete: complete, Upserts: join(entries)}
}
