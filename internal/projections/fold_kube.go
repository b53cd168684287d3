package projections

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

type kubeObjects map[Name]*eventpb.KubeObject

func (m kubeObjects) apply(list []*eventpb.KubeObject) {
	for _, o := range list {
		if key := (Name{o.Namespace, o.Name}); o.Deleted {
			delete(m, key)
		} else {
			m[key] = o
		}
	}
}

// setKube takes an object in place of the one of that name; nil takes that one out.
func (s *State) setKube(kind eventpb.Kind, n Name, o *eventpb.KubeObject) {
	have := s.Kube[kind][n]
	delete(s.Kube[kind], n)
	if have != nil {
		s.join(kind, have, false)
	}
	if o != nil {
		s.Kube[kind][n] = o
		s.join(kind, o, true)
	}
}

func (s *State) applyKube(b *eventpb.KubeObjects) {
	if b.Complete {
		// A list takes the place of what was known when its last part is there.
		if s.kubePending[b.Kind] == nil || b.Part <= 1 {
			s.kubePending[b.Kind] = make(kubeObjects, len(b.Objects))
		}
		s.kubePending[b.Kind].apply(b.Objects)
		if b.Part < b.Parts {
			return
		}
		list := s.kubePending[b.Kind]
		delete(s.kubePending, b.Kind)
		s.knowKube(b.Kind)
		for n := range s.Kube[b.Kind] {
			if list[n] == nil {
				s.setKube(b.Kind, n, nil)
			}
		}
		for n, o := range list {
			s.setKube(b.Kind, n, o)
		}
	} else {
		s.knowKube(b.Kind)
		for _, o := range b.Objects {
			n := Name{o.Namespace, o.Name}
			if o.Deleted {
				o = nil
			}
			s.setKube(b.Kind, n, o)
		}
	}
	switch b.Kind {
	case eventpb.Kind_KIND_POD:
		s.forgetLogs()
	case eventpb.Kind_KIND_SERVICE:
		s.forgetProbes()
	case eventpb.Kind_KIND_NODE:
		s.noteNode()
	}
}

// knowKube says that the kind's objects are known from now on.
func (s *State) knowKube(kind eventpb.Kind) {
	if s.Kube[kind] == nil {
		s.Kube[kind] = kubeObjects{}
	}
	switch kind {
	case eventpb.Kind_KIND_SERVICE, eventpb.Kind_KIND_ENDPOINT_SLICE:
		s.touch(topicServices)
	default:
		s.touch(topicKube)
	}
}

// Object returns nil when there is none.
func (s *State) Object(k eventpb.Kind, namespace, name string) *eventpb.KubeObject {
	return s.Kube[k][Name{namespace, name}]
}

func (s *State) service(namespace, name string) *eventpb.KubeObject {
	return s.Object(eventpb.Kind_KIND_SERVICE, namespace, name)
}

func (s *State) pod(namespace, name string) *eventpb.KubeObject {
	return s.Object(eventpb.Kind_KIND_POD, namespace, name)
}

// clusterIP returns the Service's first address, where it has one.
func clusterIP(o *eventpb.KubeObject) (netip.Addr, bool) {
	for _, ip := range o.GetService().GetClusterIps() {
		if a, err := netip.ParseAddr(ip); err == nil {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// podIP returns the pod's first address, where it has one.
func podIP(o *eventpb.KubeObject) (netip.Addr, bool) {
	for _, ip := range o.GetPod().GetPodIps() {
		if a, err := netip.ParseAddr(ip); err == nil {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// servicePort returns the Service's port of that number.
func servicePort(o *eventpb.KubeObject, port int32) *eventpb.ServicePort {
	for _, p := range o.GetService().GetPorts() {
		if p.Port == port {
			return p
		}
	}
	return nil
}

// slicesOf returns the Service's EndpointSlices in order of name.
func (s *State) slicesOf(service *eventpb.KubeObject) []*eventpb.KubeObject {
	found := slices.Collect(maps.Values(s.joins.slices[Name{service.Namespace, service.Name}]))
	slices.SortFunc(found, func(a, b *eventpb.KubeObject) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// readyBackends returns the ready addresses of the Service's port, ascending and each once, with the pod that
// has each. Ports of slices and Service match by name; a slice without a ready condition counts as ready.
func (s *State) readyBackends(service *eventpb.KubeObject, port *eventpb.ServicePort) ([]netip.AddrPort, map[netip.AddrPort]string) {
	pods := map[netip.AddrPort]string{}
	for _, o := range s.slicesOf(service) {
		slice := o.GetEndpointSlice()
		for _, p := range slice.Ports {
			if p.Name != port.GetName() || p.Port == nil {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.Ready != nil && !*e.Ready {
					continue
				}
				for _, text := range e.Addresses {
					if a, err := netip.ParseAddr(text); err == nil {
						pods[netip.AddrPortFrom(a, uint16(*p.Port))] = e.TargetName
					}
				}
			}
		}
	}
	return sortedKeys(pods), pods
}

func sortedKeys[V any](m map[netip.AddrPort]V) []netip.AddrPort {
	keys := make([]netip.AddrPort, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, netip.AddrPort.Compare)
	return keys
}

// podWithIP returns the name of the pod in the namespace that has the address: of pods on this node first, then
// as EndpointSlices name it.
func (s *State) podWithIP(namespace string, ip netip.Addr) (string, bool) {
	best := ""
	for n, o := range s.Kube[eventpb.Kind_KIND_POD] {
		if a, ok := podIP(o); ok && a == ip && n.Namespace == namespace && !o.GetPod().HostNetwork && (best == "" || n.Name < best) {
			best = n.Name
		}
	}
	if best != "" {
		return best, true
	}
	for n, o := range s.Kube[eventpb.Kind_KIND_ENDPOINT_SLICE] {
		if n.Namespace != namespace {
			continue
		}
		for _, e := range o.GetEndpointSlice().Endpoints {
			if e.TargetKind == "Pod" && slices.Contains(e.Addresses, ip.String()) && (best == "" || e.TargetName < best) {
				best = e.TargetName
			}
		}
	}
	return best, best != ""
}

// internalIP returns the node's first IPv4 InternalIP, or its first.
func (s *State) internalIP() (netip.Addr, bool) {
	var first netip.Addr
	for _, text := range s.thisNode().GetNode().GetInternalIps() {
		a, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if a.Is4() {
			return a, true
		}
		if !first.IsValid() {
			first = a
		}
	}
	return first, first.IsValid()
}

// thisNode returns the recorder's node, by its name or, where that is not known to Kubernetes, as the only one.
func (s *State) thisNode() *eventpb.KubeObject {
	nodes := s.Kube[eventpb.Kind_KIND_NODE]
	if o := nodes[Name{"", s.Node}]; o != nil || len(nodes) != 1 {
		return o
	}
	for _, o := range nodes {
		return o
	}
	return nil
}
