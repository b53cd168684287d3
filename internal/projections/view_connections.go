package projections

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// connections.json: the connections to Services that this node translates, and the clients that session affinity binds.

type connectionRow struct {
	Client        string  `json:"client"`
	ClientPod     *string `json:"client_pod"` // namespace/name; null for one that is no pod of this node
	Protocol      string  `json:"protocol"`
	Frontend      string  `json:"frontend"`
	Service       *string `json:"service"`
	Backend       *string `json:"backend"`
	BackendID     *uint32 `json:"backend_id"`
	BackendPod    *string `json:"backend_pod"`
	BackendState  *string `json:"backend_state"` // as the map has it; gone: it is not there any more
	BackendGoneAt *string `json:"backend_gone_at"`
	Outlived      bool    `json:"outlived"`
	Path          string  `json:"path"` // packet, socket_lb
	Since         *string `json:"since"`
	Closing       *bool   `json:"closing"`
	SocketState   *string `json:"socket_state"`
}

type conntrackRow struct {
	Map        string `json:"map"`
	Entries    int    `json:"entries"`
	MaxEntries uint32 `json:"max_entries"`
}

type translationsRow struct {
	Map     string `json:"map"`
	Entries int    `json:"entries"`
}

func connectionsView(s *State, w *waits) any {
	read := len(s.conntracks()) > 0
	need(w, "bpfmap", "the conntrack maps", 0, read)
	need(w, "bpfmap", waitMaps, 0, s.servicesRead())
	c := s.connections()
	var b bytes.Buffer
	b.WriteString("{\n  \"connections\": ")
	l := listWriter{b: &b}
	for i := range c.kept {
		l.add(oneLine(c.row(&c.kept[i])))
	}
	l.end(read)
	fmt.Fprintf(&b, ",\n  \"omitted\": %d,\n  \"affinities\": ", c.omitted)
	bindings, omitted := s.bindings()
	namespaces, clock := s.namespaces(), s.clock()
	l = listWriter{b: &b}
	for _, one := range bindings {
		l.add(oneLine(c.affinity(one, namespaces, clock)))
	}
	l.end(s.mapOf(cilium.Affinity4) != nil || s.mapOf(cilium.Affinity6) != nil)
	fmt.Fprintf(&b, ",\n  \"affinities_omitted\": %d,\n  \"conntrack\": ", omitted)
	s.writeConntracks(&b)
	b.WriteString(",\n  \"translations\": ")
	s.writeTranslations(&b)
	fmt.Fprintf(&b, ",\n  \"translations_of_pods_sockets\": %d\n}\n", c.translated)
	return encoded(b.Bytes())
}

func (s *State) writeConntracks(b *bytes.Buffer) {
	l := listWriter{b: b}
	for _, m := range s.conntracks() {
		l.add(oneLine(conntrackRow{m.Name, len(m.Entries), m.MaxEntries}))
	}
	l.end(true)
}

func (s *State) writeTranslations(b *bytes.Buffer) {
	l := listWriter{b: b}
	for _, k := range []cilium.Kind{cilium.SockRevNAT4, cilium.SockRevNAT6} {
		if m := s.mapOf(k); m != nil {
			l.add(oneLine(translationsRow{m.Name, len(m.Entries)}))
		}
	}
	l.end(true)
}

func (c *connections) row(x *connection) connectionRow {
	r := connectionRow{
		Client: x.client.String(), Protocol: x.proto.String(), Frontend: x.frontend.String(), Service: c.service(x.id, l4{x.frontend, x.proto}),
		BackendID: unlessZero(x.backendID), Outlived: x.outlived, Path: "packet", Since: stamp(x.sinceNs), Closing: when(x.tracked, x.closing),
		ClientPod: c.s.podAt(x.client.Addr()),
	}
	if x.socket != nil {
		pod := x.pod.String()
		r.Path, r.ClientPod, r.SocketState = "socket_lb", &pod, &x.socket.State
	}
	if x.backend.IsValid() {
		text := x.backend.String()
		r.Backend, r.BackendPod = &text, c.backendPod(x)
	}
	r.BackendState, r.BackendGoneAt = c.stateOf(x)
	return r
}

// stateOf is the state of a connection's backend, and when it went.
func (c *connections) stateOf(x *connection) (state, goneAt *string) {
	k := backendKey{x.id.v6, x.backendID}
	if b, ok := c.s.LB.backends[k]; ok {
		return some(b.State.String()), nil
	}
	g, ok := c.s.LB.goneBackend(k)
	if x.backendID == 0 {
		g, ok = c.s.LB.goneAddress(x.id.v6, x.backend)
	}
	switch {
	case ok:
		return some("gone"), stamp(g.GoneNs)
	case x.backendID != 0:
		return some("gone"), nil // from before the recording
	}
	return nil, nil
}

// goneAddress is the last backend with an address that went; false for none that is remembered, and for one that is there.
func (l *LB) goneAddress(v6 bool, a netip.AddrPort) (GoneBackend, bool) {
	for i := len(l.gone) - 1; i >= 0; i-- {
		if g := l.gone[i]; g.V6 == v6 && unmapped(g.Address) == a {
			return g, !l.has(backendKey{v6, g.ID})
		}
	}
	return GoneBackend{}, false
}

// service names the Service of a rev-NAT id; of one that is gone, the Service that has its address.
func (c *connections) service(id revNAT, at l4) *string {
	keys := append(slices.Clone(c.front(id).keys), frontendKey{at.address, at.proto, 0})
	for _, k := range keys {
		if n, ok := c.s.owningService(k); ok {
			text := n.String()
			return &text
		}
	}
	return nil
}

// backendPod names a backend's pod: one of this node by its address, else by the EndpointSlices of the frontend's Service.
func (c *connections) backendPod(x *connection) *string {
	if pod := c.s.podAt(x.backend.Addr()); pod != nil {
		return pod
	}
	f := c.front(x.id)
	if len(f.keys) == 0 {
		return nil
	}
	if f.sides == nil {
		f.sides = c.s.sidesOf(f.keys[0], c.s.LB.frontends[f.keys[0]])
	}
	for _, e := range f.sides.at[l4{unmapped(x.backend), ofFrontend(f.keys[0], x.proto)}] {
		if e.of.TargetKind == "Pod" {
			return some(Name{cmp.Or(e.of.TargetNamespace, e.slice.Namespace), e.of.TargetName}.String())
		}
	}
	return nil
}

// podAt names the pod at an address, of those that are not on the node's network.
func (s *State) podAt(a netip.Addr) *string {
	for _, n := range s.joins.pods[a.Unmap()] {
		if networked(s.pod(n.Namespace, n.Name)) {
			return some(n.String())
		}
	}
	return nil
}
