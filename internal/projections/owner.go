package projections

import (
	"net/netip"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Owner is the object that a frontend is of: a Service, or a pod with a hostPort.
type Owner struct {
	Kind string // Service, Pod
	Name Name
	UID  string
}

// frontendKeyOf reads a frontend as the agent names it: ip:port/PROTO, with /i for the internal scope.
func frontendKeyOf(text string) (frontendKey, bool) {
	address, rest, _ := strings.Cut(text, "/")
	proto, scope, internal := strings.Cut(rest, "/")
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return frontendKey{}, false
	}
	k := frontendKey{address: a}
	switch proto {
	case "TCP", "UDP", "SCTP":
		k.proto = protoOf(proto)
	}
	if internal && scope == "i" {
		k.scope = 1
	}
	return k, true
}

// agentRow returns what the agent wants of a frontend. The agent has one row for both scopes.
func (s *State) agentRow(k frontendKey) (frontendRow, bool) {
	for _, proto := range []cilium.Proto{k.proto, cilium.TCP} {
		if k.proto != proto && k.proto != cilium.Any {
			continue
		}
		for _, scope := range []uint8{k.scope, 0} {
			if row, ok := s.joins.agent[frontendKey{k.address, proto, scope}]; ok {
				return row, true
			}
		}
	}
	return frontendRow{}, false
}

// owner finds whose frontend it is, as the API has it now; false for one that no object claims. A wildcard frontend
// (port 0) is of the first Service that has the address.
func (s *State) owner(k frontendKey) (Owner, bool) {
	if n, ok := s.owningService(k); ok {
		return Owner{"Service", n, s.service(n.Namespace, n.Name).GetUid()}, true
	}
	if f := s.LB.frontends[k]; f != nil && f.Flags&cilium.FlagHostPort != 0 {
		if pod, ok := s.hostPortPod(k, f); ok {
			return Owner{"Pod", Name{pod.Namespace, pod.Name}, pod.Uid}, true
		}
	}
	return Owner{}, false
}

var (
	allProtos = []cilium.Proto{cilium.TCP, cilium.UDP, cilium.SCTP}
	oneProto  = map[cilium.Proto][]cilium.Proto{cilium.TCP: {cilium.TCP}, cilium.UDP: {cilium.UDP}, cilium.SCTP: {cilium.SCTP}, cilium.Any: allProtos}
)

// protos are the protocols that a frontend may be of in the API: all for one that was written before Cilium told them apart.
func (k frontendKey) protos() []cilium.Proto { return oneProto[k.proto] }

func (s *State) owningService(k frontendKey) (Name, bool) {
	f := s.LB.frontends[k]
	for _, proto := range k.protos() {
		names := s.joins.services[l4{k.address, proto}]
		if len(names) == 0 && f != nil && f.Flags&cilium.FlagNodePort != 0 {
			names = s.joins.nodePorts[l4{netip.AddrPortFrom(netip.Addr{}, k.address.Port()), proto}]
		}
		if len(names) > 0 {
			return names[0], true
		}
	}
	return Name{}, false
}

// hostPortPod returns the pod of this node whose hostPort the frontend is: the one that its backends lead to; of one
// without backends any that has not ended. Several pods may have named the port one after the other, and what leads to
// one that is gone is not the next one's.
func (s *State) hostPortPod(k frontendKey, f *Frontend) (*eventpb.KubeObject, bool) {
	backends := s.LB.slots(f)
	var any *eventpb.KubeObject
	for _, proto := range k.protos() {
		for _, n := range s.joins.hostPorts[l4{netip.AddrPortFrom(netip.Addr{}, k.address.Port()), proto}] {
			pod := s.pod(n.Namespace, n.Name)
			if phase := pod.GetPod().GetPhase(); phase == "Succeeded" || phase == "Failed" {
				continue
			}
			for _, b := range backends {
				if hasAddress(pod, b.Addr()) {
					return pod, true
				}
			}
			any = pod
		}
	}
	if len(backends) > 0 {
		return nil, false
	}
	return any, any != nil
}

func hasAddress(pod *eventpb.KubeObject, a netip.Addr) bool {
	for _, text := range pod.GetPod().GetPodIps() {
		if ip, err := netip.ParseAddr(text); err == nil && ip == a {
			return true
		}
	}
	return false
}

// rememberOwners notes whose the touched frontends are, so that one left behind can be told from one never known.
func (s *State) rememberOwners() {
	for k := range s.LB.touched {
		if s.LB.frontends[k] == nil {
			s.disown(k)
		} else if o, ok := s.owner(k); ok {
			s.own(k, o)
		}
	}
}

func (s *State) own(k frontendKey, o Owner) {
	if s.owners[k] == o {
		return
	}
	s.disown(k)
	s.owners[k] = o
	if s.joins.owned[o.Name] == nil {
		s.joins.owned[o.Name] = map[frontendKey]struct{}{}
	}
	s.joins.owned[o.Name][k] = struct{}{}
}

func (s *State) disown(k frontendKey) {
	o, ok := s.owners[k]
	if !ok {
		return
	}
	delete(s.owners, k)
	if delete(s.joins.owned[o.Name], k); len(s.joins.owned[o.Name]) == 0 {
		delete(s.joins.owned, o.Name)
	}
}
