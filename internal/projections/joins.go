package projections

import (
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// joins find what belongs together without going through all objects. They are made of the objects as those come and
// go, and never stored.
type joins struct {
	slices        map[Name]map[string]*eventpb.KubeObject // a Service's EndpointSlices by name
	services      multi[l4]                               // Services by ClusterIP, external and load balancer address
	bare          map[Name]struct{}                       // Services that lack a frontend in the map
	addresses     multi[netip.Addr]                       // Services by those addresses
	nodePorts     multi[l4]                               // Services by node port, address left out
	hostPorts     multi[l4]                               // pods by host port, address left out
	pods          multi[netip.Addr]                       // pods by address, less those on the node's network
	agent         map[frontendKey]frontendRow             // the agent's rows
	owned         map[Name]map[frontendKey]struct{}       // frontends by their last owner
	endpointNodes map[string]int                          // nodes by how many ready endpoints the slices have there
	endpoints     map[string]agentEndpoint                // the agent's endpoints by key
	node          place                                   // this node
	status        *agentStatus                            // nil while it is not known
	config        *agentConfig
}

// l4 is an address, a port and a protocol.
type l4 struct {
	address netip.AddrPort
	proto   cilium.Proto
}

// multi holds the names behind each key, ascending: two Services may claim one address.
type multi[K comparable] map[K][]Name

func (m multi[K]) add(k K, n Name) {
	i, found := slices.BinarySearchFunc(m[k], n, Name.compare)
	if !found {
		m[k] = slices.Insert(m[k], i, n)
	}
}

func (m multi[K]) remove(k K, n Name) {
	i, found := slices.BinarySearchFunc(m[k], n, Name.compare)
	if !found {
		return
	}
	if m[k] = slices.Delete(m[k], i, i+1); len(m[k]) == 0 {
		delete(m, k)
	}
}

func newJoins() joins {
	return joins{
		slices: map[Name]map[string]*eventpb.KubeObject{}, services: multi[l4]{}, bare: map[Name]struct{}{}, addresses: multi[netip.Addr]{}, nodePorts: multi[l4]{}, hostPorts: multi[l4]{}, pods: multi[netip.Addr]{},
		agent: map[frontendKey]frontendRow{}, owned: map[Name]map[frontendKey]struct{}{}, endpointNodes: map[string]int{}, endpoints: map[string]agentEndpoint{},
	}
}

// join takes an object in (or out, when it changes or goes) and touches what rests on it.
func (s *State) join(kind eventpb.Kind, o *eventpb.KubeObject, in bool) {
	name := Name{o.Namespace, o.Name}
	switch kind {
	case eventpb.Kind_KIND_SERVICE:
		for _, k := range addressesOf(o) {
			change(s.joins.services, k, name, in)
			s.touchNamed(s.joins.services[k]) // two may claim one address
		}
		for _, k := range addressesOf(o) {
			change(s.joins.addresses, k.address.Addr(), name, in)
			s.touchWildcards(k.address.Addr())
		}
		for _, k := range nodePortsOf(o) {
			change(s.joins.nodePorts, k, name, in)
		}
		s.touchService(name, o)
		s.touchOwned(name)
	case eventpb.Kind_KIND_ENDPOINT_SLICE:
		s.joinSlice(o, in)
	case eventpb.Kind_KIND_POD:
		s.joinPod(name, o, in)
		s.touchOwned(name)
	}
}

// touchWildcards touches the frontends that take what no other of their address does.
func (s *State) touchWildcards(a netip.Addr) {
	for scope := range uint8(2) {
		if k := (frontendKey{netip.AddrPortFrom(a, 0), cilium.Any, scope}); s.LB.frontends[k] != nil {
			s.LB.touch(k)
		}
	}
}

func change[K comparable](m multi[K], k K, n Name, in bool) {
	if in {
		m.add(k, n)
	} else {
		m.remove(k, n)
	}
}

func (s *State) joinSlice(o *eventpb.KubeObject, in bool) {
	service := Name{o.Namespace, o.GetEndpointSlice().GetService()}
	of := s.joins.slices[service]
	switch {
	case in && of == nil:
		s.joins.slices[service] = map[string]*eventpb.KubeObject{o.Name: o}
	case in:
		of[o.Name] = o
	default:
		if delete(of, o.Name); len(of) == 0 {
			delete(s.joins.slices, service)
		}
	}
	s.joins.countNodes(o, in)
	s.touchService(service, s.service(service.Namespace, service.Name))
}

func (j *joins) countNodes(o *eventpb.KubeObject, in bool) {
	for _, e := range o.GetEndpointSlice().GetEndpoints() {
		switch {
		case e.NodeName == "" || wishOf(e) != wishActive:
		case in:
			j.endpointNodes[e.NodeName]++
		default:
			if j.endpointNodes[e.NodeName]--; j.endpointNodes[e.NodeName] == 0 {
				delete(j.endpointNodes, e.NodeName)
			}
		}
	}
}

func (s *State) joinPod(name Name, o *eventpb.KubeObject, in bool) {
	pod := o.GetPod()
	for _, c := range pod.GetContainers() {
		for _, p := range c.Ports {
			if p.HostPort != 0 && !pod.HostNetwork {
				change(s.joins.hostPorts, l4{netip.AddrPortFrom(netip.Addr{}, uint16(p.HostPort)), protoOf(p.Protocol)}, name, in)
				s.touchPort(uint16(p.HostPort))
			}
		}
	}
	if pod.GetHostNetwork() {
		return
	}
	for _, text := range pod.GetPodIps() {
		if a, err := netip.ParseAddr(text); err == nil {
			change(s.joins.pods, a, name, in)
		}
	}
}

// protoOf reads a protocol as Kubernetes writes it; empty is TCP.
func protoOf(text string) cilium.Proto {
	switch text {
	case "UDP":
		return cilium.UDP
	case "SCTP":
		return cilium.SCTP
	}
	return cilium.TCP
}

// addressesOf are the Service's addresses with each of its ports, less the nodes' own.
func addressesOf(o *eventpb.KubeObject) []l4 {
	svc := o.GetService()
	var list []l4
	for _, texts := range [][]string{svc.GetClusterIps(), svc.GetExternalIps(), svc.GetLoadBalancerIps()} {
		for _, text := range texts {
			a, err := netip.ParseAddr(text)
			if err != nil {
				continue // None
			}
			for _, p := range svc.Ports {
				list = append(list, l4{netip.AddrPortFrom(a, uint16(p.Port)), protoOf(p.Protocol)})
			}
		}
	}
	return list
}

func nodePortsOf(o *eventpb.KubeObject) []l4 {
	var list []l4
	for _, p := range o.GetService().GetPorts() {
		if p.NodePort != 0 {
			list = append(list, l4{netip.AddrPortFrom(netip.Addr{}, uint16(p.NodePort)), protoOf(p.Protocol)})
		}
	}
	return list
}

// frontendsOf are the Service's frontends that are in the map, in no order.
func (s *State) frontendsOf(o *eventpb.KubeObject) []frontendKey {
	var list []frontendKey
	for _, at := range addressesOf(o) {
		for _, proto := range []cilium.Proto{at.proto, cilium.Any} {
			for scope := range uint8(2) {
				if k := (frontendKey{at.address, proto, scope}); s.LB.frontends[k] != nil {
					list = append(list, k)
				}
			}
		}
	}
	for _, at := range nodePortsOf(o) {
		for k := range s.LB.ports[at.address.Port()] {
			if k.proto == at.proto || k.proto == cilium.Any {
				list = append(list, k)
			}
		}
	}
	return list
}

// joinAgent takes a row of the agent's table of frontends in, or out.
func (s *State) joinAgent(key string, in bool) {
	k, ok := frontendKeyOf(key)
	if !ok {
		return
	}
	s.touchRow(k)
	if row, ok := s.Agent.frontendRow(key); in && ok {
		s.joins.agent[k] = row
	} else {
		delete(s.joins.agent, k)
	}
}
