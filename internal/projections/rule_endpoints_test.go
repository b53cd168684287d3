package projections

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// cilium#37077, cilium#29275, cilium#29571: pods, agent and cilium_lxc, in both directions.
func TestEndpointUnpaired(t *testing.T) {
	d := readNode(t)
	const pod, id = "web-65786f495b-v7kvz", 113 // at 10.42.0.123
	entry := func(t *testing.T) []byte {
		for _, m := range d.maps {
			for _, e := range m.Entries {
				if key, err := hex.DecodeString(e.Key); m.Name == "cilium_lxc" && err == nil && key[0] == 10 && key[3] == 123 {
					return key
				}
			}
		}
		t.Fatal("no entry of 10.42.0.123")
		return nil
	}
	outOfMap := func(t *testing.T, st *story) {
		st.maps(&eventpb.MapDelta{Map: "cilium_lxc", KeySize: 20, ValueSize: 48, MaxEntries: 65535, Deletes: entry(t)})
	}
	outOfAgent := func(_ *testing.T, st *story) {
		st.event("agent", &eventpb.AgentObjects{Kind: "endpoint", Objects: []*eventpb.AgentObject{{Key: fmt.Sprint(id), Deleted: true}}})
	}
	podGone := func(_ *testing.T, st *story) { st.gone(eventpb.Kind_KIND_POD, pod) }
	resourceGone := func(_ *testing.T, st *story) { st.gone(eventpb.Kind_KIND_CILIUM_ENDPOINT, pod) }
	deleting := func(_ *testing.T, st *story) {
		o := *st.s.pod("cca-dp", pod)
		st.objects(eventpb.Kind_KIND_POD, &eventpb.KubeObject{Namespace: o.Namespace, Name: o.Name, Uid: o.Uid, Deleting: true, Pod: o.Pod})
	}
	type step = func(*testing.T, *story)
	for _, c := range []struct {
		name  string
		steps []step
		want  []string
		says  string
	}{
		{"not in the map", []step{outOfMap}, []string{"endpoint-unpaired endpoint 113"}, "endpoint 113 pod cca-dp/" + pod + " 10.42.0.123 is in the agent's list, and cilium_lxc lacks 10.42.0.123"},
		{"not in the agent's list, after its restart", []step{outOfAgent}, []string{"endpoint-unpaired endpoint 113"}, "is in cilium_lxc and not in the agent's list"},
		{"in neither", []step{outOfAgent, outOfMap, resourceGone}, []string{"endpoint-unpaired pod cca-dp/" + pod + " 10.42.0.123"}, "is neither in the agent's list nor in cilium_lxc"},
		{"the pod is gone, and the agent has it", []step{podGone}, []string{"endpoint-unpaired endpoint 113"}, "is in the agent's list and has no pod"},
		{"an old address that still routes", []step{podGone, outOfAgent, resourceGone}, []string{"endpoint-unpaired endpoint 113"}, "is in cilium_lxc, and neither is it in the agent's list nor has it a pod"},
		{"all gone", []step{outOfAgent, podGone, outOfMap, resourceGone}, nil, ""},
		{"a CiliumEndpoint alone", []step{outOfAgent, podGone, outOfMap}, nil, ""},
		{"on its way out", []step{deleting, outOfAgent, outOfMap}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := d.node(t)
			st.wait(20)
			for _, step := range c.steps {
				step(t, st)
			}
			st.wait(9 - len(c.steps))
			st.wantOpen("in flight")
			st.wait(1 + len(c.steps))
			st.wantOpen("after the bound", c.want...)
			if c.says != "" {
				st.wantText("endpoint-unpaired", c.says)
			}
			validate(t, "endpoints.json", []byte(st.text("endpoints.json")))
		})
	}
}

func TestPodsWithoutAnEndpointByDesign(t *testing.T) {
	st := readNode(t).node(t)
	for i, p := range []*eventpb.Pod{
		{NodeName: "lab", HostNetwork: true, PodIps: []string{"192.168.96.10"}, Phase: "Running"},
		{NodeName: "lab", Phase: "Pending"},
		{NodeName: "lab", PodIps: []string{"10.42.0.200"}, Phase: "Succeeded"},
	} {
		st.objects(eventpb.Kind_KIND_POD, &eventpb.KubeObject{Namespace: "x", Name: fmt.Sprint("p", i), Uid: "u", Pod: p})
	}
	st.wait(20)
	st.wantOpen("after the bound")
}
