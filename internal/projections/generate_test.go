package projections

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

type reflectType = reflect.Type

var sourceNames = []string{"kube", "bpfmap", "agent", "hubble", "host", "podlog", "probe"}

// generator makes events of few names and addresses, so that they meet.
type generator struct{ *rand.Rand }

func (g generator) of(list ...string) string { return list[g.IntN(len(list))] }

func (g generator) event(profile string) *eventpb.Event {
	var body proto.Message
	source := g.of(sourceNames...)
	switch g.IntN(24) {
	case 0:
		body = &eventpb.SourceStatus{State: eventpb.SourceState(g.IntN(5)), Error: g.of("", "broken")}
	case 1:
		body = &eventpb.Gap{FromNs: g.Int64N(100), ToNs: 100, Reason: eventpb.GapReason(g.IntN(9)), Count: g.Uint64N(3), Detail: g.of("", "x")}
	case 2:
		body = &eventpb.Mark{Text: g.of("svc", "step 1", "")}
	case 3:
		if g.IntN(5) > 0 {
			profile = ""
		}
		body = &eventpb.Session{ProfileYaml: g.of(profile, "not: [a profile"), Sources: sourceNames[:g.IntN(8)]}
	case 4:
		return &eventpb.Event{Source: source} // of a newer version
	case 5, 6:
		body = &eventpb.Flows{NodeName: "n1", Flows: make([]*eventpb.Flow, g.IntN(4))}
		for i := range body.(*eventpb.Flows).Flows {
			body.(*eventpb.Flows).Flows[i] = &eventpb.Flow{TimeNs: g.Int64N(9), Flow: g.flow()}
		}
	case 7:
		body = &eventpb.AgentEvents{Events: []*eventpb.AgentEvent{{TimeNs: 1}}}
	case 8, 9:
		body = &eventpb.LogLines{Namespace: "cca-dp", Pod: g.of("holder", "probe"), PodUid: g.of("u1", "u2"), ContainerId: g.of("c1", "c2"),
			Lines: []*eventpb.LogLine{{TimeNs: g.Int64N(1e6), Text: g.of("peer=10.43.0.7:80", "connected", "peer ('10.43.0.8', 80)")}}}
	case 10:
		body = &eventpb.ProbeResult{Name: g.of("nodeport", "ghost", "healthz"), HttpCode: g.Int32N(300), ExitCode: g.Int32N(30), Seconds: g.Float64()}
	case 11, 12:
		body, source = g.agent(), "agent"
	case 13, 14:
		body, source = g.host(), "host"
	case 15, 16, 17, 18:
		body, source = g.kube(), "kube"
	default:
		body, source = g.maps(), "bpfmap"
	}
	e := events.New(body)
	e.Source = source
	return e
}

func (g generator) flow() []byte {
	return hubbleFlow(g.address()+":40000", g.address()+g.of(":80", ":8080", ":30080"), func(f *flowpb.Flow) {
		f.Verdict = flowpb.Verdict(g.IntN(4))
		f.DropReasonDesc = flowpb.DropReason(150 + g.IntN(3))
	})
}

func (g generator) kube() *eventpb.KubeObjects {
	b := &eventpb.KubeObjects{Kind: eventpb.Kind(1 + g.IntN(5)), Complete: g.IntN(4) == 0}
	if b.Complete && g.IntN(2) == 0 {
		b.Parts = 3
		b.Part = 1 + g.Uint32N(3)
	}
	for range g.IntN(4) {
		o := &eventpb.KubeObject{Namespace: "cca-dp", Name: g.of("web", "holder", "web-np", "ghost"), Uid: g.of("u1", "u2"), Deleted: g.IntN(5) == 0,
			Labels: map[string]string{"a": g.of("1", "2"), "b": "3", "c": "4"}}
		switch b.Kind {
		case eventpb.Kind_KIND_SERVICE:
			o.Service = &eventpb.Service{ClusterIps: []string{g.address()}, Ports: []*eventpb.ServicePort{{Port: 80, NodePort: 30080}}}
		case eventpb.Kind_KIND_ENDPOINT_SLICE:
			o.EndpointSlice = &eventpb.EndpointSlice{Service: "web", Ports: []*eventpb.EndpointPort{{Port: proto.Int32(8080)}}}
			for range g.IntN(4) {
				o.EndpointSlice.Endpoints = append(o.EndpointSlice.Endpoints, &eventpb.Endpoint{
					Addresses: []string{g.address()}, Ready: proto.Bool(g.IntN(4) > 0), TargetKind: "Pod", TargetName: g.of("w1", "w2")})
			}
		case eventpb.Kind_KIND_POD:
			o.Pod = &eventpb.Pod{PodIps: []string{g.address()}, NodeName: "n1"}
		case eventpb.Kind_KIND_NODE:
			o.Namespace, o.Node = "", &eventpb.Node{InternalIps: []string{"192.168.0.1"}}
		case eventpb.Kind_KIND_CILIUM_ENDPOINT:
			o.CiliumEndpoint = &eventpb.CiliumEndpoint{EndpointId: g.Int64N(3), Addresses: []string{g.address()}}
		}
		b.Objects = append(b.Objects, o)
	}
	return b
}

func (g generator) address() string { return fmt.Sprintf("10.4%d.0.%d", 2+g.IntN(2), 7+g.IntN(3)) }

func (g generator) agent() *eventpb.AgentObjects {
	b := &eventpb.AgentObjects{Kind: g.of("status", "config", "endpoint", "service"), Complete: g.IntN(3) == 0}
	for range g.IntN(3) {
		text, _ := json.Marshal(map[string]any{
			"kube-proxy-replacement": map[string]any{
				"mode": g.of("True", "True", "False"), "deviceList": []any{map[string]any{"name": "eth0", "ip": []string{g.address()}}},
				"features": map[string]any{"socketLB": map[string]any{"enabled": g.IntN(3) > 0}, "bpfSocketLBHostnsOnly": g.IntN(3) == 0},
			},
			"ServiceNoBackendResponse": "reject", "EnableIPv4": true, "EnableAutoDirectRouting": g.IntN(2) == 0,
			"status": map[string]any{"networking": map[string]any{"interface-name": "lxc1", "interface-index": 4}},
			"spec": map[string]any{
				"flags":             map[string]any{"name": "ghost", "namespace": "cca-dp", "type": "ClusterIP"},
				"frontend-address":  map[string]any{"port": 80},
				"backend-addresses": make([]struct{}, g.IntN(4)),
			},
		})
		b.Objects = append(b.Objects, &eventpb.AgentObject{Key: g.of("", "1", "2"), Deleted: g.IntN(5) == 0, Json: text})
	}
	return b
}

func (g generator) host() *eventpb.HostState {
	b := &eventpb.HostState{}
	socket := &eventpb.Socket{Protocol: "tcp", Local: g.address() + ":40000", Remote: g.address() + ":80", State: "ESTABLISHED"}
	switch g.IntN(7) {
	case 0:
		b.RuleSets = []*eventpb.RuleSet{{Command: g.of("iptables-save", "ip6tables-save", "iptables-legacy-save"), Lines: []string{g.of("-A KUBE-SVC", ":KUBE-SERVICES - [0:0]", "-A CILIUM")}, Unreadable: g.of("", "denied")}}
	case 1:
		b.Links = &eventpb.Links{Links: []*eventpb.Link{{Index: 4, Name: "lxc1"}, {Index: 2, Name: g.of("eth0", "kube-ipvs0")}}}
	case 2:
		b.Attachments = &eventpb.Attachments{Attachments: []*eventpb.Attachment{
			{Ifindex: 4, Device: "lxc1", Attach: "tcx/ingress", Program: g.of("cil_from_container", "other"), MapIds: []uint32{g.Uint32N(9)}},
			{Ifindex: 4, Device: "lxc1", Attach: g.of("tcx/ingress", "tc/ingress"), Program: g.of("cil_from_container", "other")},
			{Attach: "cgroup_inet4_connect", Program: "cil_sock4_connect", CgroupId: g.Uint64N(3), Cgroup: g.of("", "/a")},
		}, UsedMaps: []*eventpb.UsedMap{{Id: g.Uint32N(9), Name: "cilium_lb4_serv"}, {Id: 10, Name: "cilium_ct4_glob"}}}
	case 3:
		b.Listeners = &eventpb.Listeners{Sockets: []*eventpb.Socket{{Protocol: "tcp", Local: "0.0.0.0:80"}}}
	case 5:
		b.Neighbours = &eventpb.Neighbours{Neighbours: []*eventpb.Neighbour{{Device: "eth0", Address: g.of("192.168.0.1", g.address()), State: g.of("FAILED", "VALID"), Flags: []string{"extern_learn"}}}}
	case 4:
		b.TcFilters = &eventpb.TCFilters{}
	default:
		b.PodSockets = []*eventpb.PodSockets{{Namespace: "cca-dp", Pod: g.of("holder", "w1"), PodUid: g.of("u1", "u2"), Gone: g.IntN(4) == 0, Sockets: []*eventpb.Socket{socket}}}
	}
	return b
}

func (g generator) maps() *eventpb.MapDeltas {
	b := &eventpb.MapDeltas{}
	for range 1 + g.IntN(3) {
		d := &eventpb.MapDelta{Type: "Hash", MaxEntries: 100, MapId: g.Uint32N(9)}
		var entry func() []byte
		switch g.IntN(5) {
		case 0, 1:
			d.Map, d.KeySize, d.ValueSize = "cilium_lb4_services_v2", 12, 12
			entry = func() []byte {
				return serviceEntry(g.address()+":80", uint16(g.IntN(4)), 3, uint16(g.IntN(3)), g.Uint32N(4))
			}
		case 2:
			d.Map, d.KeySize, d.ValueSize = "cilium_lb4_backends_v3", 4, 12
			entry = func() []byte { return backendEntry(g.Uint32N(4), g.address()+":8080") }
		case 3:
			d.Map, d.KeySize, d.ValueSize = "cilium_ct4_global", 14, 56
			entry = func() []byte {
				e := make([]byte, 70)
				copy(e, []byte{10, 42, 0, byte(7 + g.IntN(3)), 10, 42, 0, 8, 0, 80, 0x9d, 0xd4, 6, byte(g.IntN(4))})
				e[14+32], e[14+36] = byte(g.IntN(3)), byte(g.IntN(2))
				return e
			}
		default:
			d.Map, d.KeySize, d.ValueSize = g.of("cilium_policy_v3_00001", "cilium_policy_v3_00002", "of_another"), 12, uint32(12*(1+g.IntN(2)))
			entry = func() []byte { return make([]byte, d.KeySize+d.ValueSize) }
		}
		d.Complete, d.Absent, d.Unsupported = g.IntN(4) == 0, g.IntN(12) == 0, g.IntN(20) == 0
		if d.Complete && g.IntN(2) == 0 {
			d.Parts, d.Part = 2, 1+g.Uint32N(2)
		}
		for range g.IntN(5) {
			if e := entry(); !d.Complete && g.IntN(3) == 0 {
				d.Deletes = append(d.Deletes, e[:d.KeySize]...)
			} else {
				d.Upserts = append(d.Upserts, e...)
			}
		}
		b.Maps = append(b.Maps, d)
	}
	return b
}
