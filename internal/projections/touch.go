package projections

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// topic is a part of State that changes by itself.
type topic uint8

const (
	topicServices    topic = iota // Services, EndpointSlices, and the maps and the agent's tables of frontends and backends
	topicConnections              // conntrack and translations
	topicMaps                     // other maps
	topicAgent                    // the agent's status, configuration and endpoints
	topicPins                     // which maps there are, and of which size
	topicHost                     // the host, less the sockets inside pods
	topicSockets                  // inside pods
	topicKube                     // pods, nodes, CiliumEndpoints
	topicProbes
	topicSources // status and gaps
	topicDrops   // of packets
	topicGaps    // status, gaps, and that a gap is over
	topicFindings
	topics
)

// touched is what changed, and when.
type touched struct {
	topics   [topics]uint64    // positions
	services map[Name]struct{} // by the event that is being folded; LB has the frontends
	again    bool              // that event has everything judged again, changed or not
}

func newTouched() touched { return touched{services: map[Name]struct{}{}} }

func (s *State) touch(t topic) { s.touched.topics[t] = s.Seq }

// changed says whether one of the topics changed with the event that is being folded.
func (s *State) changed(list []topic) bool {
	return slices.ContainsFunc(list, func(t topic) bool { return s.touched.topics[t] == s.Seq })
}

// touchService touches the Service of that name, and its frontends; o is nil where there is none.
func (s *State) touchService(name Name, o *eventpb.KubeObject) {
	s.touch(topicServices)
	s.touched.services[name] = struct{}{}
	for _, k := range s.frontendsOf(o) {
		s.LB.touch(k)
	}
}

// touchPort touches the frontends of types NodePort and HostPort with that port.
func (s *State) touchPort(port uint16) {
	for k := range s.LB.ports[port] {
		s.LB.touch(k)
	}
}

// touchAll has every frontend and every Service judged again, though nothing of them changed, and every file made again.
func (s *State) touchAll() {
	s.touched.again = true
	for t := range topics {
		s.touch(t)
	}
}

// touchFrontends touches all of them, also those that only the agent has.
func (s *State) touchFrontends() {
	for k := range s.LB.frontends {
		s.LB.touch(k)
	}
	for k := range s.joins.agent {
		s.LB.touch(k)
	}
}

func (s *State) touchServices() {
	s.touch(topicServices)
	for n := range s.Kube[eventpb.Kind_KIND_SERVICE] {
		s.touched.services[n] = struct{}{}
	}
}

// touchServed touches the backends that conntrack entries lead to and that are gone.
func (s *State) touchServed() {
	for _, m := range s.conntracks() {
		for id := range m.served {
			if b := (backendKey{m.v6(), id}); !s.LB.has(b) {
				s.LB.touchBackend(b)
			}
		}
	}
}

// touchOpen touches what findings last of: it may have gone while its rules did not judge.
func (s *State) touchOpen() {
	for k := range s.book.open {
		switch r := ruleNamed[k.rule]; {
		case r.frontend != nil:
			if f, ok := frontendKeyOf(k.scope); ok {
				s.LB.touch(f)
			}
		case r.service != nil:
			namespace, name, _ := strings.Cut(k.scope, "/")
			s.touched.services[Name{namespace, name}] = struct{}{}
		case r.backend != nil:
			s.LB.touchBackend(backendKeyOf(k.scope))
		}
	}
}

func (s *State) touchNamed(services []Name) {
	for _, n := range services {
		s.touched.services[n] = struct{}{}
	}
}

// touchOwned touches the frontends that the object of that name owns, or owned last.
func (s *State) touchOwned(name Name) {
	for k := range s.joins.owned[name] {
		s.LB.touch(k)
	}
}

// touchClaimants touches the Services that claim the touched frontends.
func (s *State) touchClaimants() {
	for k := range s.LB.touched {
		for _, proto := range k.protos() {
			s.touchNamed(s.joins.services[l4{k.address, proto}])
			s.touchNamed(s.joins.nodePorts[l4{netip.AddrPortFrom(netip.Addr{}, k.address.Port()), proto}])
		}
	}
}

func (s *State) touchMap(m *Map) {
	switch m.Kind {
	case cilium.Services4, cilium.Services6, cilium.Backends4, cilium.Backends6, cilium.SourceRange4, cilium.SourceRange6:
		s.touch(topicServices)
	case cilium.CT4TCP, cilium.CT6TCP, cilium.CT4Any, cilium.CT6Any, cilium.SockRevNAT4, cilium.SockRevNAT6:
		s.touch(topicConnections)
	default:
		s.touch(topicMaps)
	}
}

// touchFamily touches all Services when a map of frontends comes or goes: it says whether Cilium serves its family.
func (s *State) touchFamily(m *Map) {
	if m.Kind == cilium.Services4 || m.Kind == cilium.Services6 {
		s.touchServices()
	}
}

func (s *State) touchAgent(kind string) {
	switch kind {
	case "service", "backend":
		s.touch(topicServices)
	default:
		s.touch(topicAgent)
	}
}

// settle ends the folding of an event: what it touched is judged, and forgotten as touched.
func (s *State) settle() {
	for k := range s.LB.touched {
		if f := s.LB.frontends[k]; f != nil {
			f.rev = s.Seq
		}
	}
	if len(s.LB.touched) > 0 {
		s.touch(topicServices)
	}
	if s.touched.again {
		s.touchFrontends()
		s.touchServices()
		s.touchServed()
		s.touchOpen()
		s.touched.again = false
	}
	s.touchClaimants()
	s.noteBare()
	s.noteLeft()
	s.forgetDrops()
	s.closeGaps()
	s.judge()
	clear(s.LB.touched)
	clear(s.LB.stirred)
	clear(s.touched.services)
}

// touchedFrontends are those of the event that is being folded, also frontends that are gone, in order.
func (s *State) touchedFrontends() []frontendKey {
	return slices.SortedFunc(maps.Keys(s.LB.touched), frontendKey.compare)
}

func (s *State) touchedServices() []Name {
	return slices.SortedFunc(maps.Keys(s.touched.services), Name.compare)
}

func (s *State) touchedBackends() []backendKey {
	return slices.SortedFunc(maps.Keys(s.LB.stirred), backendKey.compare)
}
