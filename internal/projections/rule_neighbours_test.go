package projections

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

func neighbour(address, state string, flags ...string) *eventpb.Neighbour {
	n := &eventpb.Neighbour{Ifindex: 2, Device: "eth0", Address: address, State: state, Flags: flags}
	if state == "VALID" {
		n.Mac = "de:0d:77:d8:b4:2b"
	}
	return n
}

// otherNode is a node whose agent has some options, with a backend on another node at 192.168.96.11.
func otherNode(t *testing.T, options string) *story {
	st := tell(t)
	st.agent(readAgent(t, options))
	node := func(name, ip string) *eventpb.KubeObject {
		return &eventpb.KubeObject{Name: name, Node: &eventpb.Node{InternalIps: []string{ip}}}
	}
	st.objects(eventpb.Kind_KIND_NODE, node("lab", "192.168.96.10"), node("far", "192.168.96.11"), node("idle", "192.168.96.12"))
	st.slice("web-1", func(o *eventpb.KubeObject) { o.EndpointSlice.Endpoints[0].NodeName = "far" }, "10.42.1.9")
	return st
}

func (st *story) neighbours(list ...*eventpb.Neighbour) {
	st.event("host", &eventpb.HostState{Neighbours: &eventpb.Neighbours{Neighbours: list}})
}

func TestNeighboursOfBackends(t *testing.T) {
	const far, idle, self, gateway = "192.168.96.11", "192.168.96.12", "192.168.96.10", "192.168.96.1"
	for _, c := range []struct {
		name    string
		options string
		list    []*eventpb.Neighbour
		want    string
	}{
		{"a node with backends does not answer", "default", []*eventpb.Neighbour{neighbour(far, "FAILED")}, "neighbour-failed " + far},
		{"it is being asked for", "default", []*eventpb.Neighbour{neighbour(far, "INCOMPLETE")}, "neighbour-failed " + far},
		{"a node without backends does not answer", "default", []*eventpb.Neighbour{neighbour(idle, "FAILED")}, ""},
		{"the node itself, which Cilium looks for too", "hybrid", []*eventpb.Neighbour{neighbour(self, "FAILED", "extern_learn", "managed"), neighbour(far, "VALID", "extern_learn", "managed")}, ""},
		{"the tunnel leads through a gateway", "default", []*eventpb.Neighbour{neighbour(gateway, "VALID")}, ""},
		{"routes from node to node, and Cilium has not found it", "hybrid", []*eventpb.Neighbour{neighbour(gateway, "VALID", "extern_learn", "managed")}, "neighbour-missing " + far},
		{"routes from node to node, and the kernel asks when it needs to", "hybrid", []*eventpb.Neighbour{neighbour(gateway, "VALID")}, ""},
		{"all is there", "hybrid", []*eventpb.Neighbour{neighbour(far, "VALID", "extern_learn", "managed")}, ""},
		{"on one of two devices", "default", []*eventpb.Neighbour{neighbour(far, "FAILED"), neighbour(far, "VALID")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := otherNode(t, c.options)
			st.neighbours(c.list...)
			st.wait(9)
			var got []string
			judge := func() {
				got = nil
				for _, f := range st.s.Findings() {
					if (f.Rule == neighbourFailed.name || f.Rule == neighbourMissing.name) && f.EndedNs == 0 {
						got = append(got, f.Rule+" "+f.Subject)
					}
				}
			}
			if judge(); len(got) > 0 {
				t.Errorf("at once: %q", got)
			}
			st.wait(55)
			if judge(); c.want == "" != (len(got) == 0) || c.want != "" && (len(got) != 1 || got[0] != c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
			st.slice("web-1", nil, "-10.42.1.9") // nobody is ready there any more
			st.neighbours(append(c.list, neighbour("192.168.96.200", "VALID"))...)
			if judge(); len(got) > 0 {
				t.Errorf("without backends there: %q", got)
			}
		})
	}
}
