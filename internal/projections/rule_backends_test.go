package projections

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

const webFrontend = webIP + ":80/TCP"

// cilium#7930, cilium#48050: found by age alone, and with the side that is late.
func TestStaleBackend(t *testing.T) {
	const stale = "stale-backend " + webFrontend + " 10.42.0.38:8080/TCP"
	for _, c := range []struct {
		name string
		row  func(st *story)
		says string
	}{
		{"the agent has not heard of it", func(*story) {}, "the agent has it too: the agent is behind the API"},
		{"the agent has let it go", func(st *story) { st.row(webFrontend, "cca-dp/web", "Done", "", "10.42.0.9:8080/TCP") }, "the map is behind the agent"},
		{"the agent is at it", func(st *story) { st.row(webFrontend, "cca-dp/web", "Pending", "", "10.42.0.9:8080/TCP") }, "yet to write the map (Pending)"},
		{"no table of the agent", func(st *story) {
			st.event("agent", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN})
		}, "which no EndpointSlice of cca-dp/web has"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := settled(t)
			st.slice("web-1", nil, "10.42.0.9")
			c.row(st)
			st.wait(3)
			st.wantOpen("while it is in flight")
			if due, ok := st.s.NextDue(); !ok || due <= st.s.SeenNs {
				t.Errorf("no tick is asked for: %d, %t", due, ok)
			}
			st.wait(2)
			st.wantOpen("after the bound, with no other event", stale)
			st.wantText("stale-backend", c.says)
			st.webFront("10.42.0.9:8080")
			st.wantOpen("when the map has followed")
			all := st.s.Findings()
			if n := len(all); n == 0 || all[n-1].Rule != staleBackend.name || all[n-1].EndedNs == 0 {
				t.Errorf("the finding did not end: %v", all)
			}
		})
	}
}

func TestMissingBackend(t *testing.T) {
	st := settled(t)
	st.slice("web-2", nil, "10.42.0.50")
	st.wait(2)
	st.row(webFrontend, "cca-dp/web", "Error", "argument list too long", "10.42.0.9:8080/TCP", "10.42.0.38:8080/TCP", "10.42.0.50:8080/TCP")
	st.wait(4)
	st.wantOpen("a third backend that the agent cannot write", "agent-error "+webFrontend, "missing-backend "+webFrontend+" 10.42.0.50:8080/TCP")
	st.wantText("missing-backend", "10.42.0.50:8080/TCP is ready in the EndpointSlices of cca-dp/web (pod-10.42.0.50)", "fails to write the map: argument list too long")
	st.wantText("agent-error", "argument list too long")
	st.row(webFrontend, "cca-dp/web", "Done", "", "10.42.0.9:8080/TCP", "10.42.0.38:8080/TCP", "10.42.0.50:8080/TCP")
	st.webFront("10.42.0.9:8080", "10.42.0.38:8080", "10.42.0.50:8080")
	st.wantOpen("when it is written")
}

// What is put right in time is no finding, also where something else is wrong at every moment.
func TestBackendsInFlightAreNotFound(t *testing.T) {
	st := settled(t)
	addresses := []string{"10.42.0.9", "10.42.0.38", "10.42.0.50", "10.42.0.51", "10.42.0.52", "10.42.0.53"}
	for i := range 30 {
		a, b := addresses[i%6], addresses[(i+1)%6]
		st.slice("web-1", nil, a, b) // the map is behind by two of these
		st.row(webFrontend, "cca-dp/web", "Done", "", a+":8080/TCP", b+":8080/TCP")
		st.webFront(addresses[(i+5)%6]+":8080", a+":8080")
	}
	if f := st.s.Findings(); len(f) != 0 {
		t.Errorf("found %s", f[0].Text)
	}
}

// What Cilium chooses of the endpoints, as its own tests have it (pkg/loadbalancer/tests/testdata).
func TestWhatCiliumChooses(t *testing.T) {
	active := func(addresses ...string) (list []lbBackend) {
		for _, a := range addresses {
			list = append(list, lbBackend{address: a})
		}
		return list
	}
	port := func(name, protocol string, n int32) *eventpb.EndpointPort {
		return &eventpb.EndpointPort{Name: name, Protocol: protocol, Port: proto.Int32(n)}
	}
	stale := func(at string) string { return "stale-backend " + webFrontend + " " + at }
	missing := func(at string) string { return "missing-backend " + webFrontend + " " + at }
	for _, c := range []struct {
		name  string
		svc   func(o *eventpb.KubeObject)
		slice func(o *eventpb.KubeObject)
		ends  []string
		head  lbEntry
		slots []lbBackend
		want  []string
	}{
		{name: "terminating ones stay, behind the count", ends: []string{"10.42.0.9", "~10.42.0.38", "!10.42.0.50"}, head: lbEntry{qcount: 2},
			slots: []lbBackend{{address: "10.42.0.9:8080"}, {address: "10.42.0.38:8080", state: cilium.BackendTerminating}, {address: "10.42.0.50:8080", state: cilium.BackendTerminating}}},
		{name: "only terminating ones", ends: []string{"~10.42.0.38"}, slots: []lbBackend{{address: "10.42.0.38:8080", state: cilium.BackendTerminating}}},
		{name: "a terminating one that an older Cilium leaves out", ends: []string{"10.42.0.9", "!10.42.0.38"}, slots: active("10.42.0.9:8080")},
		{name: "not ready has no slot", ends: []string{"10.42.0.9", "-10.42.0.38"}, slots: active("10.42.0.9:8080")},
		{name: "not ready with a slot", ends: []string{"10.42.0.9", "-10.42.0.38"}, slots: active("10.42.0.9:8080", "10.42.0.38:8080"), want: []string{stale("10.42.0.38:8080/TCP")}},
		{name: "none ready", ends: []string{"-10.42.0.9"}, slots: active()},
		{name: "published though not ready", svc: func(o *eventpb.KubeObject) { o.Service.PublishNotReady = true },
			slice: func(o *eventpb.KubeObject) { o.EndpointSlice.Endpoints[0].Terminating = proto.Bool(true) },
			ends:  []string{"10.42.0.9"}, slots: active("10.42.0.9:8080")},
		{name: "conditions left out are ready", slice: func(o *eventpb.KubeObject) {
			e := o.EndpointSlice.Endpoints[0]
			e.Ready, e.Serving, e.Terminating = nil, nil, nil
		}, ends: []string{"10.42.0.9"}, slots: active(), want: []string{missing("10.42.0.9:8080/TCP")}},
		{name: "local only", svc: func(o *eventpb.KubeObject) { o.Service.InternalTrafficPolicy = "Local" },
			slice: func(o *eventpb.KubeObject) { o.EndpointSlice.Endpoints[1].NodeName = "other" },
			ends:  []string{"10.42.0.9", "10.42.1.9"}, slots: active("10.42.0.9:8080")},
		{name: "local only, and a remote one", svc: func(o *eventpb.KubeObject) { o.Service.InternalTrafficPolicy = "Local" },
			slice: func(o *eventpb.KubeObject) { o.EndpointSlice.Endpoints[1].NodeName = "other" },
			ends:  []string{"10.42.0.9", "10.42.1.9"}, slots: active("10.42.0.9:8080", "10.42.1.9:8080"), want: []string{stale("10.42.1.9:8080/TCP")}},
		{name: "hints of this zone", svc: func(o *eventpb.KubeObject) { o.Service.TrafficDistribution = "PreferClose" },
			slice: hints("a", "b"), ends: []string{"10.42.0.9", "10.42.1.9"}, slots: active("10.42.0.9:8080")},
		{name: "hints that the agent is not set to heed", svc: func(o *eventpb.KubeObject) { o.Service.TrafficDistribution = "PreferClose" },
			slice: hints("a", "b"), ends: []string{"10.42.0.9", "10.42.1.9"}, slots: active("10.42.0.9:8080", "10.42.1.9:8080")},
		{name: "hints, and the near one is not there", svc: func(o *eventpb.KubeObject) { o.Service.TrafficDistribution = "PreferClose" },
			slice: hints("a", "b"), ends: []string{"10.42.0.9", "10.42.1.9"}, slots: active("10.42.1.9:8080"), want: []string{missing("10.42.0.9:8080/TCP")}},
		{name: "a hint is missing: all", svc: func(o *eventpb.KubeObject) { o.Service.TrafficDistribution = "PreferClose" },
			slice: hints("a", ""), ends: []string{"10.42.0.9", "10.42.1.9"}, slots: active("10.42.0.9:8080"), want: []string{missing("10.42.1.9:8080/TCP")}},
		{name: "the annotation of old", svc: func(o *eventpb.KubeObject) {
			o.Annotations = map[string]string{"service.kubernetes.io/topology-mode": "Auto"}
		}, slice: hints("a", "b"), ends: []string{"10.42.0.9", "10.42.1.9"}, slots: active("10.42.0.9:8080")},
		{name: "this node first", svc: func(o *eventpb.KubeObject) { o.Service.TrafficDistribution = "PreferSameNode" },
			slice: func(o *eventpb.KubeObject) { o.EndpointSlice.Endpoints[1].NodeName = "other" },
			ends:  []string{"10.42.0.9", "10.42.1.9"}, slots: active("10.42.0.9:8080")},
		{name: "weight 0 is maintenance", slice: func(o *eventpb.KubeObject) { o.Annotations = map[string]string{"service.cilium.io/weight": "0"} },
			ends: []string{"10.42.0.9"}, slots: active()},
		{name: "the same address with another port", ends: []string{"10.42.0.9"}, slots: active("10.42.0.9:9090"),
			want: []string{missing("10.42.0.9:8080/TCP"), stale("10.42.0.9:9090/TCP")}},
		{name: "the same address and port with another protocol", ends: []string{"10.42.0.9"}, slots: []lbBackend{{address: "10.42.0.9:8080", proto: 17}},
			want: []string{missing("10.42.0.9:8080/TCP"), stale("10.42.0.9:8080/UDP")}},
		{name: "a backend from before protocols", ends: []string{"10.42.0.9"}, slots: []lbBackend{{address: "10.42.0.9:8080"}}},
		{name: "ports by name", svc: func(o *eventpb.KubeObject) { o.Service.Ports[0].Name = "http" }, slice: func(o *eventpb.KubeObject) {
			o.EndpointSlice.Ports = []*eventpb.EndpointPort{port("http", "TCP", 8080), port("admin", "TCP", 9090), port("http", "UDP", 8081), {Name: "http", Protocol: "TCP"}}
		}, ends: []string{"10.42.0.9"}, slots: active("10.42.0.9:8080")},
		{name: "an IPv6 address in a slice is of the other family", ends: []string{"10.42.0.9", "fd00::9"}, slots: active("10.42.0.9:8080")},
		{name: "from other clusters too", svc: func(o *eventpb.KubeObject) {
			o.Annotations = map[string]string{"service.cilium.io/global": "true"}
		}, ends: []string{"10.42.0.9"}, slots: active("10.42.0.9:8080", "10.142.0.9:8080")},
		{name: "a local redirect", head: lbEntry{flags: cilium.FlagLocalRedirect}, ends: []string{"10.42.0.9"}, slots: active("10.42.0.77:53")},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := settled(t)
			st.event("agent", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN}) // API and map alone
			st.svc("web", c.svc)
			st.slice("web-1", c.slice, c.ends...)
			c.head.front = webIP + ":80"
			st.front(c.head, c.slots...)
			st.wait(10)
			st.wantOpen("after the bound", c.want...)
		})
	}
}

// hints gives the two endpoints of a slice a zone each; empty for no hint.
func hints(zones ...string) func(o *eventpb.KubeObject) {
	return func(o *eventpb.KubeObject) {
		for i, z := range zones {
			if o.EndpointSlice.Endpoints[i].Zone = z; z != "" {
				o.EndpointSlice.Endpoints[i].HintZones = []string{z}
			}
		}
	}
}

// kubernetes/website#38174, cilium#22446: an address in two slices, with one port or with two, while it moves.
func TestAddressInTwoSlices(t *testing.T) {
	st := settled(t)
	st.slice("web-2", nil, "10.42.0.38") // in both
	st.wait(10)
	st.slice("web-1", nil, "10.42.0.9") // in one
	st.wait(10)
	st.slice("web-1", nil, "10.42.0.9", "-10.42.0.38") // in both, and not ready in one: Cilium takes either
	st.wait(10)
	st.wantOpen("while 10.42.0.38 moves between slices")
	st.slice("web-1", func(o *eventpb.KubeObject) { o.EndpointSlice.Ports[0].Port = proto.Int32(9090) }, "10.42.0.38")
	st.slice("web-2", nil, "10.42.0.9", "10.42.0.38")
	st.wait(10)
	st.wantOpen("with a second port in another slice", "missing-backend "+webFrontend+" 10.42.0.38:9090/TCP")
}

// cilium#43358: two Services exchange their backends' ports, and the map does not follow.
func TestTargetPortsSwapped(t *testing.T) {
	st := settled(t)
	st.slice("web-1", func(o *eventpb.KubeObject) { o.EndpointSlice.Ports[0].Port = proto.Int32(9090) }, "10.42.0.9", "10.42.0.38")
	st.wait(6)
	st.wantOpen("after the bound", "missing-backend "+webFrontend+" 10.42.0.38:9090/TCP", "missing-backend "+webFrontend+" 10.42.0.9:9090/TCP",
		"stale-backend "+webFrontend+" 10.42.0.38:8080/TCP", "stale-backend "+webFrontend+" 10.42.0.9:8080/TCP")
	st.wantText("stale-backend", "(they have 10.42.0.9:9090/TCP)")
}

// cilium#23744: the last backend drains. Its slot is counted no more and its entry is still there.
func TestDrainingIsNotStale(t *testing.T) {
	st := settled(t)
	st.slice("web-1", nil)
	st.row(webFrontend, "cca-dp/web", "Done", "")
	st.webFront()
	leaving := lbBackend{address: "10.42.0.9:8080", state: cilium.BackendTerminating}
	slot := lbEntry{front: webIP + ":80", slot: 1, backend: leaving.id()}
	st.maps(servicesDelta(false, slot.bytes()), backendsDelta(false, leaving.bytes()))
	st.wait(20)
	st.wantOpen("with count 0 and a terminating backend")
	leaving.state = cilium.BackendActive
	st.maps(backendsDelta(false, leaving.bytes()))
	st.wait(3)
	st.wantOpen("when the slot behind the count is of an active one", "slot-count "+webFrontend)
}

// cilium#28094, cilium#40780: API, agent and map disagree about a backend's state.
func TestBackendState(t *testing.T) {
	const one, two = "10.42.0.9:8080", "10.42.0.38:8080"
	subject := func(a string) string { return "backend-state " + webFrontend + " " + a + "/TCP" }
	for _, c := range []struct {
		name   string
		row    []string
		qcount uint16
		slots  []lbBackend
		want   []string
		says   []string
	}{
		{"ready, and terminating in the map since the agent's start", []string{one + "/TCP", two + "/TCP"}, 1, []lbBackend{{address: one}, {address: two, state: cilium.BackendTerminating}},
			[]string{subject(two)}, []string{"slot 2 of " + webFrontend + " has 10.42.0.38:8080/TCP as terminating", "the EndpointSlices have it ready; the agent has it active"}},
		{"active, and quarantined in the map", []string{one + "/TCP", two + "/TCP"}, 1, []lbBackend{{address: one}, {address: two}},
			[]string{subject(two)}, []string{"as quarantined, and the agent has it active"}},
		{"unhealthy, and active in the map", []string{one + "/TCP", "-" + two + "/TCP"}, 0, []lbBackend{{address: one}, {address: two}},
			[]string{subject(two)}, []string{"as active, and the agent has it unhealthy"}},
		{"unhealthy and quarantined", []string{one + "/TCP", "-" + two + "/TCP"}, 1, []lbBackend{{address: one}, {address: two}}, nil, nil},
		{"a state that this version does not know", []string{one + "/TCP", two + "/TCP"}, 0, []lbBackend{{address: one}, {address: two, state: 9}}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := settled(t)
			st.row(webFrontend, "cca-dp/web", "Done", "", c.row...)
			st.front(lbEntry{front: webIP + ":80", qcount: c.qcount}, c.slots...)
			st.wait(3)
			st.wantOpen("in flight")
			st.wait(4)
			st.wantOpen("after the bound", c.want...)
			if len(c.says) > 0 {
				st.wantText("backend-state", c.says...)
			}
		})
	}
}

// cilium#9684, cilium#46493: the agent's table and the map disagree where no API tells who is right.
func TestAgentAndMapWithoutTheAPI(t *testing.T) {
	st := settled(t)
	st.event("kube", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN})
	st.row(webFrontend, "cca-dp/web", "Done", "", "10.42.0.9:8080/TCP", "10.42.0.50:8080/TCP")
	st.wait(3)
	st.wantOpen("in flight")
	st.wait(3)
	st.wantOpen("after the bound", "agent-and-map "+webFrontend+" 10.42.0.38:8080/TCP", "agent-and-map "+webFrontend+" 10.42.0.50:8080/TCP")
	st.wantText("agent-and-map", "slot 2 of "+webFrontend+" has 10.42.0.38:8080/TCP (active), which the agent has not", "it wrote it at 1970-01-01T00:00:01")
	st.webFront("10.42.0.9:8080", "10.42.0.50:8080")
	st.wantOpen("when the map has followed")
}

// The NodePort's frontends at the node's own addresses are made of the row of 0.0.0.0.
func TestAgentAndMapOfNodePorts(t *testing.T) {
	st := settled(t)
	st.event("kube", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN})
	st.row("0.0.0.0:30780/TCP", "cca-dp/web-np", "Done", "", "10.42.0.9:8080/TCP")
	for _, front := range []string{"0.0.0.0:30780", "192.168.0.1:30780"} {
		st.front(lbEntry{front: front, flags: cilium.FlagNodePort}, lbBackend{address: "10.42.0.9:8080"})
	}
	st.wait(10)
	st.wantOpen("when both follow the row")
	st.row("0.0.0.0:30780/TCP", "cca-dp/web-np", "Done", "")
	st.front(lbEntry{front: "0.0.0.0:30780", flags: cilium.FlagNodePort})
	st.wait(6)
	st.wantOpen("when one is left behind", "agent-and-map 192.168.0.1:30780/TCP 10.42.0.9:8080/TCP")
}

func TestAgentPending(t *testing.T) {
	st := settled(t)
	for range 10 {
		st.row(webFrontend, "cca-dp/web", "Pending", "", "10.42.0.9:8080/TCP", "10.42.0.38:8080/TCP")
		st.row(webFrontend, "cca-dp/web", "Done", "", "10.42.0.9:8080/TCP", "10.42.0.38:8080/TCP")
	}
	st.row(webFrontend, "cca-dp/web", "Pending", "", "10.42.0.9:8080/TCP", "10.42.0.38:8080/TCP")
	st.wait(14)
	st.wantOpen("while it is at work")
	st.wait(1)
	st.wantOpen("when it does not end", "agent-pending "+webFrontend)
}

// A source that is down says nothing, and what is due then is not told.
func TestNothingIsToldOfASourceThatIsDown(t *testing.T) {
	st := settled(t)
	st.slice("web-1", nil, "10.42.0.9")
	st.event("bpfmap", &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN})
	st.wait(20)
	st.wantOpen("while the maps are not read")
	st.webFront("10.42.0.9:8080")
	st.row(webFrontend, "cca-dp/web", "Done", "", "10.42.0.9:8080/TCP")
	st.up("bpfmap")
	st.wait(20)
	st.wantOpen("when they are read again")
}
