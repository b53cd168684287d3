package projections

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// cilium#9206, cilium#24818, cilium#33723: a local process is on a NodePort or hostPort.
func TestListenerCollision(t *testing.T) {
	every := []lbEntry{{front: "0.0.0.0:30080", flags: cilium.FlagNodePort}, {front: "192.168.0.1:30080", flags: cilium.FlagNodePort}}
	dns := []lbEntry{{front: "0.0.0.0:53", proto: 17, flags: cilium.FlagHostPort}}
	for _, c := range []struct {
		name            string
		fronts          []lbEntry
		protocol, local string
		want            string
	}{
		{"on every address", every, "tcp", "0.0.0.0:30080", "30080/TCP"},
		{"on every address of both families", every, "tcp6", "[::]:30080", "30080/TCP"},
		{"on the node's address", every, "tcp", "192.168.0.1:30080", "30080/TCP"},
		{"on loopback, which the node's own connections go to", every, "tcp", "127.0.0.1:30080", "30080/TCP"},
		{"of a resolver, under a hostPort", dns, "udp", "127.0.0.53:53", "53/UDP"},
		{"of another protocol", dns, "tcp", "0.0.0.0:53", ""},
		{"of another port", every, "tcp", "0.0.0.0:30081", ""},
		{"on an address that the port is not at", every, "tcp", "169.254.20.10:30080", ""},
		{"on an IPv6 address", every, "tcp6", "[fd96::10]:30080", ""},
		{"on the port of a ClusterIP", []lbEntry{{front: "10.43.0.1:6443"}}, "tcp6", "[::]:6443", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := tell(t)
			st.agent(readAgent(t, "default"))
			for _, e := range c.fronts {
				st.front(e)
			}
			st.event("host", &eventpb.HostState{Listeners: &eventpb.Listeners{Sockets: []*eventpb.Socket{{Protocol: c.protocol, Local: c.local, State: "LISTEN"}}}})
			st.wait(6)
			var got []string
			for _, f := range st.s.Findings() {
				if f.Rule == listenerCollision.name {
					got = append(got, f.Subject)
				}
			}
			if c.want == "" != (len(got) == 0) || c.want != "" && got[0] != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
			st.event("host", &eventpb.HostState{Listeners: &eventpb.Listeners{}})
			for _, f := range st.s.Findings() {
				if f.Rule == listenerCollision.name && f.EndedNs == 0 {
					t.Errorf("%s lasts though nobody listens", f.Subject)
				}
			}
		})
	}
}
