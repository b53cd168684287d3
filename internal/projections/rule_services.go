package projections

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// addressClaimedTwice: two Services have the same address, port and protocol, which the API allows for external IPs and load
// balancers' addresses.
var addressClaimedTwice = rule{
	name: "address-claimed-twice", level: LevelError, hold: apiHold, needs: []string{"kube"},
	means: "one of the Services gets the connections; Cilium refuses all of the other (frontend already owned by another service). Give one of them another address or port",
	service: func(s *State, n Name, o *eventpb.KubeObject) (found []problem) {
		if !served(o) {
			return nil
		}
		for _, at := range addressesOf(o) {
			claim := s.claimants(at)
			if len(claim) < 2 || claim[0] != n { // told once, of the first by name
				continue
			}
			p := problem{subject: at.String(), text: fmt.Sprintf("%s is claimed by the Services %s", at, nameTexts(claim))}
			if owner, ok := s.agentOwner(at); ok {
				p.text += fmt.Sprintf("; the agent serves %s", owner)
			}
			found = append(found, p)
		}
		return found
	},
}

// claimants are the Services that have an address and that Cilium serves.
func (s *State) claimants(at l4) []Name {
	return slices.DeleteFunc(slices.Clone(s.joins.services[at]), func(n Name) bool { return !served(s.service(n.Namespace, n.Name)) })
}

func (s *State) agentOwner(at l4) (string, bool) {
	row, ok := s.joins.agent[frontendKey{address: at.address, proto: at.proto}]
	return row.ServiceName, ok && s.agentKnown()
}

func nameTexts(names []Name) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = n.String()
	}
	return strings.Join(texts, ", ")
}

// familyWithoutBackends: a dual-stack Service has backends in one family only.
var familyWithoutBackends = rule{
	name: "family-without-backends", level: LevelWarning, hold: 10 * time.Second, needs: []string{"kube", "bpfmap"},
	means: "clients that use the Service's address of that family are refused, while those of the other are served; see whether the pods have addresses of both families",
	service: func(s *State, n Name, o *eventpb.KubeObject) (found []problem) {
		if !served(o) || len(familiesOf(o.GetService())) < 2 {
			return nil
		}
		ready, slices := s.readyByFamily(o)
		for _, family := range familiesOf(o.GetService()) {
			other := "IPv4"
			if family == other {
				other = "IPv6"
			}
			front, empty := s.emptyFrontend(o, family)
			if ready[family] > 0 || ready[other] == 0 || !empty {
				continue
			}
			why := fmt.Sprintf("its EndpointSlices of type %s have nothing ready", family)
			if slices[family] == 0 {
				why = fmt.Sprintf("it has no EndpointSlice of type %s", family)
			}
			found = append(found, problem{subject: fmt.Sprintf("%s %s", n, family),
				text: fmt.Sprintf("%s of %s has no backends: %s, and %d ready in %s", front, n, why, ready[other], other)})
		}
		return found
	},
}

// readyByFamily counts a Service's ready endpoints, and its EndpointSlices, by their type of address.
func (s *State) readyByFamily(o *eventpb.KubeObject) (ready, count map[string]int) {
	ready, count = map[string]int{}, map[string]int{}
	for _, slice := range s.slicesOf(o) {
		family := slice.GetEndpointSlice().AddressType
		count[family]++
		for _, e := range slice.GetEndpointSlice().Endpoints {
			if wishOf(e) == wishActive {
				ready[family]++
			}
		}
	}
	return ready, count
}

// emptyFrontend is the first of a Service's ClusterIP frontends of a family that are in the map, if none has a backend.
func (s *State) emptyFrontend(o *eventpb.KubeObject, family string) (frontendKey, bool) {
	var first *frontendKey
	for _, w := range s.frontendsWanted(o) {
		f := s.LB.frontends[w.key]
		if w.what != "ClusterIP" || familyOf(w.key.address.Addr()) != family || f == nil || !f.Head {
			continue
		}
		if f.Count+f.QCount > 0 {
			return frontendKey{}, false
		}
		if first == nil {
			first = &w.key
		}
	}
	if first == nil {
		return frontendKey{}, false
	}
	return *first, true
}

// portWithoutEndpoints: the Service's port has another name or protocol than those of its EndpointSlices.
var portWithoutEndpoints = rule{
	name: "port-without-endpoints", level: LevelError, hold: apiHold, needs: []string{"kube"},
	means: "connections to this port are refused; give the EndpointSlice's port the name and protocol of the Service's port",
	service: func(s *State, n Name, o *eventpb.KubeObject) (found []problem) {
		if !served(o) {
			return nil
		}
		all := s.slicesOf(o)
		for _, p := range o.GetService().Ports {
			has, others := portsOf(all, p)
			if has || len(others) == 0 {
				continue
			}
			name := fmt.Sprintf("%d/%s (named %q)", p.Port, protoOf(p.Protocol), p.Name)
			found = append(found, problem{subject: fmt.Sprintf("%s %d/%s", n, p.Port, protoOf(p.Protocol)),
				text: fmt.Sprintf("port %s of %s matches no port of its EndpointSlices, which have %s", name, n, strings.Join(others, ", "))})
		}
		return found
	},
}

// portsOf says whether slices with ready endpoints have a Service's port, and which ports they have else.
func portsOf(all []*eventpb.KubeObject, port *eventpb.ServicePort) (has bool, others []string) {
	for _, o := range all {
		slice := o.GetEndpointSlice()
		if !slices.ContainsFunc(slice.Endpoints, func(e *eventpb.Endpoint) bool { return wishOf(e) == wishActive }) {
			continue
		}
		for _, p := range slice.Ports {
			if matches(port, p) {
				return true, nil
			}
			if p.Port == nil {
				others = appendNew(others, fmt.Sprintf("one without a number (named %q)", p.Name))
			} else {
				others = appendNew(others, fmt.Sprintf("%d/%s (named %q)", *p.Port, protoOf(p.Protocol), p.Name))
			}
		}
	}
	slices.Sort(others)
	return false, others
}
