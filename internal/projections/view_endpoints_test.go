package projections

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// nodeDump is one moment of a real node: what `cilium-dbg endpoint list -o json`, `kubectl get -o json`, `ip -json link` and the
// pinned maps said, cut down to the fields that are about endpoints.
type nodeDump struct {
	agent []json.RawMessage
	kube  []struct {
		Kind     string
		Metadata struct{ Namespace, Name, UID string }
		Spec     struct {
			NodeName    string
			HostNetwork bool
		}
		Status struct {
			Phase  string
			PodIPs []struct{ IP string }
			ID     int64
			State  string
			// Of a CiliumEndpoint.
			Identity   struct{ ID int64 }
			Networking struct{ Addressing []struct{ IPv4 string } }
		}
	}
	maps []struct {
		Name       string
		KeySize    uint32 `json:"key_size"`
		ValueSize  uint32 `json:"value_size"`
		MaxEntries uint32 `json:"max_entries"`
		Entries    []struct{ Key, Value string }
	}
	links []struct {
		Ifindex int32
		Ifname  string
	}
}

func readNode(t *testing.T) *nodeDump {
	t.Helper()
	d := &nodeDump{}
	for name, v := range map[string]any{"agent_endpoints": &d.agent, "kube": &d.kube, "maps": &d.maps, "ip_link": &d.links} {
		text, err := os.ReadFile("testdata/node/" + name + ".json")
		if err == nil {
			err = json.Unmarshal(text, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// node tells of a real node whose pods, CiliumEndpoints, agent and maps agree.
func (d *nodeDump) node(t *testing.T) *story {
	t.Helper()
	st := tell(t)
	var list []*eventpb.AgentObject
	for _, text := range d.agent {
		var e struct{ ID int64 }
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		list = append(list, &eventpb.AgentObject{Key: fmt.Sprint(e.ID), Json: text})
	}
	st.event("agent", &eventpb.AgentObjects{Kind: "endpoint", Complete: true, Objects: list})
	for _, o := range d.kube {
		k := &eventpb.KubeObject{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, Uid: o.Metadata.UID}
		switch o.Kind {
		case "Pod":
			k.Pod = &eventpb.Pod{NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork, Phase: o.Status.Phase}
			for _, ip := range o.Status.PodIPs {
				k.Pod.PodIps = append(k.Pod.PodIps, ip.IP)
			}
			st.objects(eventpb.Kind_KIND_POD, k)
		case "CiliumEndpoint":
			k.CiliumEndpoint = &eventpb.CiliumEndpoint{EndpointId: o.Status.ID, Identity: o.Status.Identity.ID, State: o.Status.State}
			for _, a := range o.Status.Networking.Addressing {
				k.CiliumEndpoint.Addresses = append(k.CiliumEndpoint.Addresses, a.IPv4)
			}
			st.objects(eventpb.Kind_KIND_CILIUM_ENDPOINT, k)
		}
	}
	for _, m := range d.maps {
		delta := &eventpb.MapDelta{Map: m.Name, KeySize: m.KeySize, ValueSize: m.ValueSize, MaxEntries: m.MaxEntries, Complete: true}
		for _, e := range m.Entries {
			b, err := hex.DecodeString(e.Key + e.Value)
			if err != nil {
				t.Fatal(err)
			}
			delta.Upserts = append(delta.Upserts, b...)
		}
		st.maps(delta)
	}
	return st
}

func TestEndpointsOfARealNode(t *testing.T) {
	d := readNode(t)
	st := d.node(t)
	text := st.text("endpoints.json")
	validate(t, "endpoints.json", []byte(text))
	var f endpointsFile
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	devices := map[int32]string{}
	for _, l := range d.links {
		devices[l.Ifindex] = l.Ifname
	}
	rows := map[string]endpointRow{}
	for i, r := range f.Endpoints {
		if i > 0 && *r.EndpointID <= *f.Endpoints[i-1].EndpointID {
			t.Errorf("endpoint %d stands after %d", *r.EndpointID, *f.Endpoints[i-1].EndpointID)
		}
		if r.Pod == nil {
			if *r.Reserved != "host" || *r.Device != "cilium_host" || *r.InMap || !*r.InAgent {
				t.Errorf("an endpoint without a pod: %+v", r)
			}
			continue
		}
		rows[r.Pod.Name] = r
	}
	pods := 0
	for _, o := range d.kube {
		r := rows[o.Metadata.Name]
		if r.Pod == nil {
			t.Errorf("%s %s has no row", o.Kind, o.Metadata.Name)
			continue
		}
		if o.Kind == "Pod" {
			pods++
			if *r.Pod.UID != o.Metadata.UID || !cmp.Equal(r.Addresses, []string{o.Status.PodIPs[0].IP}) || devices[*r.Ifindex] != *r.Device || !strings.HasPrefix(*r.Device, "lxc") {
				t.Errorf("pod %s: %+v", o.Metadata.Name, r)
			}
			if !*r.InMap || !*r.InAgent || !*r.InCiliumEndpoint || *r.State != "ready" || r.Reserved != nil {
				t.Errorf("pod %s: %+v", o.Metadata.Name, r)
			}
			continue
		}
		if *r.EndpointID != o.Status.ID || *r.Identity != o.Status.Identity.ID {
			t.Errorf("CiliumEndpoint %s: endpoint %d identity %d, want %d and %d", o.Metadata.Name, *r.EndpointID, *r.Identity, o.Status.ID, o.Status.Identity.ID)
		}
		for _, m := range d.maps {
			if m.Name == fmt.Sprintf("cilium_policy_v3_%05d", o.Status.ID) {
				if p := r.PolicyMap; p == nil || p.Name != m.Name || *p.Entries != len(m.Entries) || p.MaxEntries != m.MaxEntries {
					t.Errorf("%s has the policy map %+v, want %s with %d of %d entries", o.Metadata.Name, p, m.Name, len(m.Entries), m.MaxEntries)
				}
			}
		}
	}
	if pods != 6 || len(f.Endpoints) != 7 {
		t.Errorf("%d pods in %d rows, want 6 and the host", pods, len(f.Endpoints))
	}
	st.wait(20)
	st.wantOpen("on a node where all agree")
}

// What Cilium's tools and the kernel said of the holder when the lab was recorded.
func TestEndpointsOfTheLab(t *testing.T) {
	text, err := os.ReadFile("../../testdata/lab/prog.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		EndpointID                 int64 `json:"endpoint_id"`
		Interface, Attach, Program string
		Ifindex                    int32
		PolicyMap                  string `json:"policy_map"`
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	s := NewState()
	for _, r := range labRecords(t) {
		if err := s.ApplyRecord(r.Seq, r.Data); err != nil {
			t.Fatal(err)
		}
	}
	value := endpointsView(s, &waits{s: s}).(endpointsFile)
	validate(t, "endpoints.json", encode(value))
	for _, r := range value.Endpoints {
		if r.Pod == nil || r.Pod.Name != "holder" {
			continue
		}
		if *r.EndpointID != want.EndpointID || *r.Device != want.Interface || *r.Ifindex != want.Ifindex || r.PolicyMap.Name != want.PolicyMap {
			t.Errorf("the holder is %+v, want %+v", r, want)
		}
		if len(r.Programs) != 1 || r.Programs[0].Attach != want.Attach || r.Programs[0].Program != want.Program || r.Programs[0].Order != 1 || r.Programs[0].ID == 0 {
			t.Errorf("the holder's programs are %+v, want one %s at %s", r.Programs, want.Program, want.Attach)
		}
		return
	}
	t.Error("no row of the holder")
}

func TestEndpointsWaitForTheirSources(t *testing.T) {
	st := tell(t)
	text := st.text("session.json")
	for _, what := range []string{"the agent's list of endpoints", "the map cilium_lxc", "the programs of the node's devices", "the node's pods"} {
		if !strings.Contains(text, what) {
			t.Errorf("session.json does not say that endpoints.json waits for %s", what)
		}
	}
}
