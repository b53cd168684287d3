package projections

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// sides is one frontend as the map, the agent and the API have it, each backend by its address.
type sides struct {
	s       *State
	k       frontendKey
	f       *Frontend
	service *eventpb.KubeObject  // that owns it; nil for none
	port    *eventpb.ServicePort // of that Service
	choice  *choice              // of that Service's endpoints
	row     frontendRow
	hasRow  bool
	wanted  []wanted // by the agent, in order of address
	agent   map[l4]*wanted
	ends    []end // of the Service, in order of address, port and slice
	at      map[l4][]*end
	held    map[l4]bool // in the map's slots

	// Of the ready endpoints of the Service's port and the frontend's family that its traffic policy allows: there is one,
	// one is on this node, one is hinted for this zone, one has no hints.
	serves, here, zoned, unhinted bool
}

// wanted is a backend that the agent wants.
type wanted struct {
	at        l4
	state     string
	unhealthy bool
}

// end is one address of an EndpointSlice with one of its ports.
type end struct {
	at     l4
	slice  *eventpb.KubeObject
	of     *eventpb.Endpoint
	port   *eventpb.EndpointPort // nil where the slice has none
	family bool                  // it is of the frontend's family
}

func (s *State) sidesOf(k frontendKey, f *Frontend) *sides {
	j := &sides{s: s, k: k, f: f, held: make(map[l4]bool, len(f.Slots))}
	if name, ok := s.owningService(k); ok {
		j.service = s.service(name.Namespace, name.Name)
		j.port = portOf(j.service, k)
	}
	if j.row, j.hasRow = s.agentRowOf(k, f); j.hasRow {
		j.takeAgent()
	}
	if j.service != nil {
		j.choice = s.choice(j.service, f)
		j.takeEndpoints()
	}
	for _, id := range f.Slots {
		if b, ok := s.LB.backends[backendKey{k.v6(), id}]; ok {
			j.held[j.key(b.Address, b.Proto)] = true
		}
	}
	return j
}

// key is a backend's address as all sides have it: of the frontend's protocol where Cilium did not tell them apart, and
// without IPv6 around an IPv4 address.
func (j *sides) key(a netip.AddrPort, p cilium.Proto) l4 {
	return l4{unmapped(a), ofFrontend(j.k, p)}
}

func (j *sides) takeAgent() {
	j.wanted = make([]wanted, 0, len(j.row.Backends))
	for _, b := range j.row.Backends {
		if k, ok := frontendKeyOf(b.Address); ok {
			j.wanted = append(j.wanted, wanted{j.key(k.address, k.proto), agentBackendState(b.State), b.Unhealthy})
		}
	}
	slices.SortFunc(j.wanted, func(a, b wanted) int { return a.at.compare(b.at) })
	j.agent = make(map[l4]*wanted, len(j.wanted))
	for i := range j.wanted {
		j.agent[j.wanted[i].at] = &j.wanted[i]
	}
}

func (j *sides) takeEndpoints() {
	for _, o := range j.s.slicesOf(j.service) {
		for _, e := range o.GetEndpointSlice().Endpoints {
			for _, text := range e.Addresses {
				a, err := netip.ParseAddr(text)
				if err != nil {
					continue // FQDN
				}
				j.takeEndpoint(end{slice: o, of: e, family: a.Is6() == j.k.v6()}, a)
			}
		}
	}
	slices.SortStableFunc(j.ends, func(a, b end) int {
		return cmp.Or(a.at.compare(b.at), cmp.Compare(a.slice.Name, b.slice.Name))
	})
	j.at = make(map[l4][]*end, len(j.ends))
	for i := range j.ends {
		e := &j.ends[i]
		j.note(e)
		if list := j.at[e.at]; e.port != nil && !slices.ContainsFunc(list, func(o *end) bool { return o.of == e.of && o.slice == e.slice }) {
			j.at[e.at] = append(list, e) // two names of one port are one endpoint
		}
	}
}

func (j *sides) note(e *end) {
	if !e.family || !j.named(e) {
		return
	}
	if !ready(e.of) || j.choice.far(e.of) {
		return
	}
	j.serves = true
	j.here = j.here || e.of.NodeName == j.s.joins.node.name
	j.zoned = j.zoned || slices.Contains(e.of.HintZones, j.s.joins.node.zone)
	j.unhinted = j.unhinted || len(e.of.HintZones) == 0
}

// named says that an end is of the Service's port, by name and protocol.
func (j *sides) named(e *end) bool {
	return e.port != nil && j.port != nil && e.port.Name == j.port.Name && protoOf(e.port.Protocol) == protoOf(j.port.Protocol)
}

func (j *sides) takeEndpoint(e end, a netip.Addr) {
	ports := e.slice.GetEndpointSlice().Ports
	for _, p := range ports {
		if p.Port != nil {
			with := e
			with.port, with.at = p, l4{netip.AddrPortFrom(a, uint16(*p.Port)), ofFrontend(j.k, protoOf(p.Protocol))}
			j.ends = append(j.ends, with)
		}
	}
	if !slices.ContainsFunc(ports, func(p *eventpb.EndpointPort) bool { return p.Port != nil }) {
		e.at = l4{netip.AddrPortFrom(a, 0), j.k.proto}
		j.ends = append(j.ends, e)
	}
}

func (b l4) compare(o l4) int {
	return cmp.Or(b.address.Compare(o.address), cmp.Compare(b.proto, o.proto))
}
