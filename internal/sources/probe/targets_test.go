package probe

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
)

func labProfile(t *testing.T) *profile.Profile {
	t.Helper()
	p, _, err := profile.Load("cca-datapath")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lab is what a node has when all of the lab is there. Each of its objects may be changed or dropped by edit.
func lab(edit func(name string, o *eventpb.KubeObject) *eventpb.KubeObject) *sourcetest.Cluster {
	all := map[string]*eventpb.KubeObject{
		"node": {Name: "lab", Node: &eventpb.Node{InternalIps: []string{"192.168.96.10"}}},
		"web-np": {Namespace: "cca-dp", Name: "web-np", Uid: "1", Service: &eventpb.Service{
			Type: "NodePort", ClusterIps: []string{"10.43.212.229"}, Ports: []*eventpb.ServicePort{{Port: 80, NodePort: 30780}},
		}},
		"ghost": {Namespace: "cca-dp", Name: "ghost", Uid: "2", Service: &eventpb.Service{
			Type: "ClusterIP", ClusterIps: []string{"10.43.10.90"}, Ports: []*eventpb.ServicePort{{Port: 80}},
		}},
		"probe": {Namespace: "cca-dp", Name: "probe", Uid: "3", Pod: &eventpb.Pod{Ready: true, Containers: []*eventpb.Container{
			{Name: "setup", Id: "c0", State: "terminated"}, {Name: "curl", Id: "c1", State: "running"},
		}}},
		"slice": {Namespace: "cca-dp", Name: "web-np-1", EndpointSlice: &eventpb.EndpointSlice{
			Service: "web-np", Endpoints: []*eventpb.Endpoint{{Addresses: []string{"10.42.0.48"}}},
		}},
		"other": {Namespace: "cca-dp", Name: "web-1", EndpointSlice: &eventpb.EndpointSlice{
			Service: "web", Endpoints: []*eventpb.Endpoint{{Addresses: []string{"10.42.0.48"}}},
		}},
	}
	var objects []*eventpb.KubeObject
	for name, o := range all {
		if o = edit(name, o); o != nil {
			objects = append(objects, o)
		}
	}
	return sourcetest.NewCluster(objects...)
}

func TestSubjects(t *testing.T) {
	asIs := func(_ string, o *eventpb.KubeObject) *eventpb.KubeObject { return o }
	without := func(gone string) func(string, *eventpb.KubeObject) *eventpb.KubeObject {
		return func(name string, o *eventpb.KubeObject) *eventpb.KubeObject {
			if name == gone {
				return nil
			}
			return o
		}
	}
	with := func(which string, change func(*eventpb.KubeObject)) func(string, *eventpb.KubeObject) *eventpb.KubeObject {
		return func(name string, o *eventpb.KubeObject) *eventpb.KubeObject {
			if name == which {
				change(o)
			}
			return o
		}
	}
	p := labProfile(t)
	base := targets{cluster: lab(asIs), profile: p}
	nodePort, _ := base.nodePort()
	ghost, _ := base.ghost()
	if nodePort.target != "http://192.168.96.10:30780/" || nodePort.pod != "" {
		t.Errorf("nodeport asks %+v", nodePort)
	}
	if ghost.target != "http://10.43.10.90:80/" || ghost.namespace != "cca-dp" || ghost.pod != "probe" || ghost.container != "curl" {
		t.Errorf("ghost asks %+v", ghost)
	}

	const same, gone, again = "same", "gone", "again"
	for name, c := range map[string]struct {
		edit            func(string, *eventpb.KubeObject) *eventpb.KubeObject
		nodePort, ghost string
	}{
		"no change":                   {asIs, same, same},
		"no NodePort Service":         {without("web-np"), gone, same},
		"no node":                     {without("node"), gone, same},
		"no ghost Service":            {without("ghost"), same, gone},
		"no probe pod":                {without("probe"), same, gone},
		"probe pod not ready":         {with("probe", func(o *eventpb.KubeObject) { o.Pod.Ready = false }), same, gone},
		"probe pod being deleted":     {with("probe", func(o *eventpb.KubeObject) { o.Deleting = true }), same, gone},
		"another probe pod":           {with("probe", func(o *eventpb.KubeObject) { o.Uid = "4" }), same, again},
		"probe's container restarted": {with("probe", func(o *eventpb.KubeObject) { o.Pod.Containers[1].Id = "c2" }), same, again},
		"headless ghost":              {with("ghost", func(o *eventpb.KubeObject) { o.Service.ClusterIps = []string{"None"} }), same, gone},
		"ghost on another port":       {with("ghost", func(o *eventpb.KubeObject) { o.Service.Ports[0].Port = 81 }), same, gone},
		"Service made anew":           {with("ghost", func(o *eventpb.KubeObject) { o.Uid = "9" }), same, again},
		"no nodePort any more":        {with("web-np", func(o *eventpb.KubeObject) { o.Service.Ports[0].NodePort = 0 }), gone, same},
		"another selector":            {with("web-np", func(o *eventpb.KubeObject) { o.Service.Selector = map[string]string{"a": "b"} }), again, same},
		"labels only":                 {with("web-np", func(o *eventpb.KubeObject) { o.Labels = map[string]string{"a": "b"} }), same, same},
		"an endpoint goes":            {with("slice", func(o *eventpb.KubeObject) { o.EndpointSlice.Endpoints = nil }), again, same},
		"an endpoint gets unready":    {with("slice", func(o *eventpb.KubeObject) { o.EndpointSlice.Endpoints[0].Ready = new(false) }), again, same},
		"another Service's endpoints": {with("other", func(o *eventpb.KubeObject) { o.EndpointSlice.Endpoints = nil }), same, same},
	} {
		t.Run(name, func(t *testing.T) {
			x := targets{cluster: lab(c.edit), profile: p}
			compare := func(name string, before, now subject, ok bool, want string) {
				got := gone
				if ok {
					got = again
					if now == before {
						got = same
					}
				}
				if got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			n, ok := x.nodePort()
			compare("nodeport", nodePort, n, ok, c.nodePort)
			g, ok := x.ghost()
			compare("ghost", ghost, g, ok, c.ghost)
		})
	}
}
