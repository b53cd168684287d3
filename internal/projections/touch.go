package projections

import (
	"maps"
	"slices"

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
	topicHost                     // the host, less the sockets inside pods
	topicSockets                  // inside pods
	topicKube                     // pods, nodes, CiliumEndpoints
	topicProbes
	topicSources // status and gaps
	topicFindings
	topics
)

// touched is what changed, and when.
type touched struct {
	topics   [topics]uint64    // positions
	services map[Name]struct{} // by the event that is being folded; LB has the frontends
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

// touchAll touches every frontend and every Service.
func (s *State) touchAll() {
	for k := range s.LB.frontends {
		s.LB.touch(k)
	}
	for n := range s.Kube[eventpb.Kind_KIND_SERVICE] {
		s.touched.services[n] = struct{}{}
	}
	for t := range topics {
		s.touch(t)
	}
}

func (s *State) touchMap(m *Map) {
	switch m.Kind {
	case cilium.Services4, cilium.Services6, cilium.Backends4, cilium.Backends6:
		s.touch(topicServices)
	case cilium.CT4TCP, cilium.CT6TCP, cilium.CT4Any, cilium.CT6Any, cilium.SockRevNAT4, cilium.SockRevNAT6:
		s.touch(topicConnections)
	default:
		s.touch(topicMaps)
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
	s.judge()
	clear(s.LB.touched)
	clear(s.touched.services)
}

// touchedFrontends are those of the event that is being folded, also frontends that are gone, in order.
func (s *State) touchedFrontends() []frontendKey {
	return slices.SortedFunc(maps.Keys(s.LB.touched), frontendKey.compare)
}

func (s *State) touchedServices() []Name {
	return slices.SortedFunc(maps.Keys(s.touched.services), Name.compare)
}
