package projections

import (
	"fmt"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

func apply(s *State, source string, body proto.Message) {
	e := events.New(body)
	e.Source, e.Node, e.Session, e.SeenNs = source, "lab", "s1", int64(s.Seq+1)*1e6
	s.Apply(s.Seq+1, e)
}

// city is a node of a large cluster: so many Services, each with a ClusterIP and a NodePort, and with so many backends, about which
// API, agent and map agree.
func city(services, backends int) *State {
	s := NewState()
	apply(s, "recorder", &eventpb.Session{Sources: []string{"kube", "bpfmap", "agent"}})
	apply(s, "agent", &eventpb.AgentObjects{Kind: "status", Complete: true, Objects: []*eventpb.AgentObject{{Json: []byte(`{"kube-proxy-replacement":{"mode":"True"}}`)}}})
	svcs, slices := &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_SERVICE, Complete: true}, &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_ENDPOINT_SLICE, Complete: true}
	rows := &eventpb.AgentObjects{Kind: "frontend", Complete: true}
	fronts, backs := servicesDelta(true), backendsDelta(true)
	for i := range services {
		name, ip, port := fmt.Sprint("s", i), fmt.Sprintf("10.43.%d.%d", i/250, i%250), int32(20000+i)
		svcs.Objects = append(svcs.Objects, &eventpb.KubeObject{Namespace: "cca-dp", Name: name, Uid: name, Service: &eventpb.Service{
			Type: "NodePort", ClusterIps: []string{ip}, IpFamilies: []string{"IPv4"}, Ports: []*eventpb.ServicePort{{Protocol: "TCP", Port: 80, NodePort: port}}}})
		var ends, inRow []string
		for j := range backends {
			n := i*backends + j
			ends = append(ends, fmt.Sprintf("10.%d.%d.%d", 64+n/62500, n/250%250, n%250))
			inRow = append(inRow, ends[j]+":8080/TCP")
		}
		slices.Objects = append(slices.Objects, sliceObject(name+"-1", name, nil, ends...))
		for _, head := range []lbEntry{{front: ip + ":80"}, {front: fmt.Sprintf("0.0.0.0:%d", port), flags: cilium.FlagNodePort}} {
			rows.Objects = append(rows.Objects, rowObject(head.front+"/TCP", "cca-dp/"+name, "Done", "", inRow...))
			head.count = uint16(backends)
			fronts.Upserts = append(fronts.Upserts, head.bytes()...)
			for j := range ends {
				e := head
				e.slot, e.backend = uint16(j+1), uint32(i*backends+j+1)
				fronts.Upserts = append(fronts.Upserts, e.bytes()...)
			}
		}
		for j, ip := range ends {
			backs.Upserts = append(backs.Upserts, backendEntry(uint32(i*backends+j+1), ip+":8080")...)
		}
	}
	apply(s, "kube", svcs)
	apply(s, "kube", slices)
	apply(s, "agent", rows)
	apply(s, "bpfmap", &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{backs, fronts}})
	for _, source := range []string{"kube", "bpfmap", "agent"} {
		apply(s, source, &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_UP})
	}
	return s
}

// BenchmarkJudgeAll judges every rule about 20,000 frontends with five backends each, as when a source comes up.
func BenchmarkJudgeAll(b *testing.B) {
	s := city(10_000, 5)
	if len(s.LB.frontends) != 20_000 || len(s.book.open) != 0 {
		b.Fatalf("%d frontends, %d findings", len(s.LB.frontends), len(s.book.open))
	}
	for b.Loop() {
		apply(s, "kube", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_UP})
	}
}

// BenchmarkJudgeSlice folds the change of one EndpointSlice of 100 endpoints among 2,000 frontends.
func BenchmarkJudgeSlice(b *testing.B) {
	s := city(1000, 100)
	o := s.Object(eventpb.Kind_KIND_ENDPOINT_SLICE, "cca-dp", "s7-1")
	for b.Loop() {
		apply(s, "kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_ENDPOINT_SLICE, Objects: []*eventpb.KubeObject{o}})
	}
	if len(s.book.open) != 0 {
		b.Errorf("%d findings", len(s.book.open))
	}
}

// BenchmarkJudgeNode folds what comes most often, one changed conntrack entry, on a node with 250 pods, each with a device and a policy
// map, 500 listeners, and 20,000 frontends; and a change of the node's programs there.
func BenchmarkJudgeNode(b *testing.B) {
	s := city(10_000, 5)
	host := &eventpb.HostState{Links: &eventpb.Links{}, Attachments: &eventpb.Attachments{}, Listeners: &eventpb.Listeners{}}
	ends, policies := &eventpb.AgentObjects{Kind: "endpoint", Complete: true}, &eventpb.MapDeltas{}
	for i := range 250 {
		device, index := fmt.Sprint("lxc", i), int32(100+i)
		host.Links.Links = append(host.Links.Links, &eventpb.Link{Index: index, Name: device})
		host.Attachments.Attachments = append(host.Attachments.Attachments, &eventpb.Attachment{Attach: "tcx/ingress", Ifindex: index, Device: device, Program: "cil_from_container", MapIds: []uint32{uint32(1000 + i)}})
		host.Attachments.UsedMaps = append(host.Attachments.UsedMaps, &eventpb.UsedMap{Id: uint32(1000 + i), Name: "cilium_calls_00"})
		ends.Objects = append(ends.Objects, &eventpb.AgentObject{Key: fmt.Sprint(i + 1), Json: fmt.Appendf(nil, `{"id":%d,"status":{"state":"ready","networking":{"interface-name":"%s","interface-index":%d}}}`, i+1, device, index)})
		policies.Maps = append(policies.Maps, &eventpb.MapDelta{Map: fmt.Sprintf("cilium_policy_v3_%05d", i+1), KeySize: 12, ValueSize: 12, MaxEntries: 16384, MapId: uint32(2000 + i), Complete: true})
		for _, protocol := range []string{"tcp", "udp"} {
			host.Listeners.Sockets = append(host.Listeners.Sockets, &eventpb.Socket{Protocol: protocol, Local: fmt.Sprint("0.0.0.0:", 1000+i)})
		}
	}
	apply(s, "host", host)
	apply(s, "agent", ends)
	apply(s, "bpfmap", policies)
	apply(s, "host", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_UP})
	b.Run("conntrack", func(b *testing.B) {
		d := ctDelta(false, svcEntry("172.16.0.1:5000", "10.43.0.1:80", 7, ctLive, 6))
		for b.Loop() {
			apply(s, "bpfmap", &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{d}})
		}
	})
	b.Run("programs", func(b *testing.B) {
		for b.Loop() {
			apply(s, "host", &eventpb.HostState{Attachments: host.Attachments})
		}
	})
	if len(s.book.open) != 0 {
		b.Errorf("%d findings", len(s.book.open))
	}
}

// BenchmarkConnectionsFile renders connections.json of 150,000 conntrack entries to Services, each of another client.
func BenchmarkConnectionsFile(b *testing.B) {
	s := city(1000, 5)
	d := ctDelta(true)
	for i := range 150_000 {
		service := i % 1000
		client, front := fmt.Sprintf("172.%d.%d.%d:5000", 16+i/62500, i/250%250, i%250), fmt.Sprintf("10.43.%d.%d:80", service/250, service%250)
		d.Upserts = append(d.Upserts, svcEntry(client, front, 7, ctLive, uint32(service*5+i%5+1))...)
	}
	apply(s, "bpfmap", &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{d}})
	for b.Loop() {
		connectionsView(s, &waits{s: s})
	}
	if c := s.connections(); len(c.kept) != maxConnections || c.omitted != 150_000-maxConnections {
		b.Errorf("%d listed, %d left out", len(c.kept), c.omitted)
	}
}
