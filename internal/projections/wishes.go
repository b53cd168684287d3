package projections

import (
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// wish is one backend that the API (or the agent) gives a frontend.
type wish struct {
	at    l4
	state wishState
	must  bool   // be in a slot; else it may
	from  string // whose endpoint it is, in words
}

type wishState uint8

const (
	wishActive  wishState = iota // takes new connections
	wishLeaving                  // terminating: keeps a slot until it is gone, and takes new connections where no other does
	wishIdle                     // not ready, or in maintenance: has no slot
	wishFar                      // on another node than its traffic policy allows: has no slot
)

// wishes are the backends that the EndpointSlices give a frontend, as Cilium chooses them (pkg/loadbalancer: convertEndpoints,
// DefaultSelectBackends, updateFrontend), by address and each once. It is false for a frontend whose backends do not come
// from EndpointSlices alone.
func (s *State) wishes(k frontendKey, f *Frontend) ([]wish, bool) {
	const elsewhere = cilium.FlagLocalRedirect | cilium.FlagNAT46x64
	name, ok := s.owningService(k)
	if !ok || f.Flags&elsewhere != 0 {
		return nil, false
	}
	o := s.service(name.Namespace, name.Name)
	if !served(o) || o.Annotations["service.cilium.io/global"] == "true" || o.Annotations["service.cilium.io/proxy-delegation"] != "" {
		return nil, false
	}
	port := portOf(o, k)
	if port == nil {
		return nil, false
	}
	c := s.choice(o, f)
	var list []wish
	for _, slice := range s.slicesOf(o) {
		list = c.take(list, slice, port, k)
	}
	return c.settle(list), true
}

// choice is what decides which of a Service's endpoints a frontend gets on this node.
type choice struct {
	local      bool // those of this node only
	preferNode bool // where this node has an active one
	preferZone bool // where hints give this zone an active one
	node, zone string

	near map[l4]bool // whether a wish is of the preferred node or zone
	hint bool        // every active one has hints
}

func (s *State) choice(o *eventpb.KubeObject, f *Frontend) *choice {
	svc := o.GetService()
	c := &choice{node: s.joins.node.name, zone: s.joins.node.zone, hint: true}
	external, internal := svc.GetExternalTrafficPolicy() == "Local", svc.GetInternalTrafficPolicy() == "Local"
	c.local = external
	if f.Scope != 0 || f.Flags.Type() == "ClusterIP" {
		c.local = internal
	}
	if internal {
		return c // topology does not apply
	}
	switch topologyOf(o) {
	case "":
	case "PreferSameNode":
		c.preferNode = true
	default:
		c.preferZone = c.zone != ""
	}
	return c
}

// far says that an endpoint is on another node than the traffic policy allows.
func (c *choice) far(e *eventpb.Endpoint) bool {
	return c.local && e.NodeName != "" && c.node != "" && e.NodeName != c.node
}

func topologyMode(annotations map[string]string) string {
	if mode, ok := annotations["service.kubernetes.io/topology-aware-hints"]; ok {
		return mode
	}
	return annotations["service.kubernetes.io/topology-mode"]
}

// take adds what a slice gives to the frontend.
func (c *choice) take(list []wish, o *eventpb.KubeObject, port *eventpb.ServicePort, k frontendKey) []wish {
	slice := o.GetEndpointSlice()
	if o.Labels["endpointslice.kubernetes.io/managed-by"] == "endpointslice-mesh-controller.cilium.io" || slice.AddressType == "FQDN" {
		return list
	}
	maintenance := o.Annotations["service.cilium.io/weight"] == "0"
	for _, p := range slice.Ports {
		if !matches(port, p) {
			continue
		}
		for _, e := range slice.Endpoints {
			for _, text := range e.Addresses {
				a, err := netip.ParseAddr(text)
				if err != nil || a.Is6() != k.v6() {
					continue
				}
				w := wish{at: l4{netip.AddrPortFrom(a, uint16(*p.Port)), k.proto}, state: wishOf(e), from: e.TargetName}
				switch {
				case c.far(e):
					w.state = wishFar
				case maintenance:
					w.state = wishIdle
				}
				w.must = w.state == wishActive && (!c.local || e.NodeName == "" || c.node != "")
				c.prefer(w, e)
				list = append(list, w)
			}
		}
	}
	return list
}

// slotted says that a backend may have a slot.
func (w *wish) slotted() bool { return w.state < wishIdle }

// matches says that a slice's port is one of the Service's port. One of them without a name matches by its protocol alone;
// a port without a number is none.
func matches(port *eventpb.ServicePort, p *eventpb.EndpointPort) bool {
	return p.Port != nil && protoOf(p.Protocol) == protoOf(port.Protocol) && (port.Name == "" || p.Name == "" || p.Name == port.Name)
}

// wishOf reads an endpoint's conditions as the API means those that it leaves out. One that is ready is active, also while it
// terminates (publishNotReadyAddresses).
func wishOf(e *eventpb.Endpoint) wishState {
	switch {
	case e.Ready == nil || *e.Ready:
		return wishActive
	case e.GetTerminating():
		return wishLeaving
	}
	return wishIdle
}

// prefer notes whether an active endpoint is of the node or zone that is preferred.
func (c *choice) prefer(w wish, e *eventpb.Endpoint) {
	if w.state != wishActive || !c.preferNode && !c.preferZone {
		return
	}
	near := c.preferNode && e.NodeName == c.node || c.preferZone && slices.Contains(e.HintZones, c.zone)
	c.hint = c.hint && (c.preferNode || len(e.HintZones) > 0)
	if near {
		if c.near == nil {
			c.near = map[l4]bool{}
		}
		c.near[w.at] = true
	}
}

// settle makes one wish of each address. What several slices say differently of one, while it moves from one to the
// other, may be or not. Whether the agent heeds topology is its own setting: what is further away may be left out or not.
func (c *choice) settle(list []wish) []wish {
	slices.SortStableFunc(list, func(a, b wish) int { return a.at.address.Compare(b.at.address) })
	out := list[:0]
	for _, w := range list {
		if c.hint && len(c.near) > 0 && !c.near[w.at] {
			w.must = false
		}
		if n := len(out); n > 0 && out[n-1].at == w.at {
			if have := &out[n-1]; have.state != w.state {
				have.state, have.must = min(have.state, w.state), false
			}
			continue
		}
		out = append(out, w)
	}
	return out
}

// served says that Cilium serves the Service, and on every node.
func served(o *eventpb.KubeObject) bool {
	return o.GetService() != nil && notServed(o) == ""
}

// portOf is the Service's port that a frontend of it serves; nil for none.
func portOf(o *eventpb.KubeObject, k frontendKey) *eventpb.ServicePort {
	var byNode *eventpb.ServicePort
	for _, p := range o.GetService().GetPorts() {
		if k.proto != cilium.Any && protoOf(p.Protocol) != k.proto {
			continue
		}
		if uint16(p.Port) == k.address.Port() && hasServiceAddress(o, k.address.Addr()) {
			return p
		}
		if p.NodePort != 0 && uint16(p.NodePort) == k.address.Port() {
			byNode = p
		}
	}
	return byNode
}

func hasServiceAddress(o *eventpb.KubeObject, a netip.Addr) bool {
	svc := o.GetService()
	for _, texts := range [][]string{svc.GetClusterIps(), svc.GetExternalIps(), svc.GetLoadBalancerIps()} {
		for _, text := range texts {
			if ip, err := netip.ParseAddr(text); err == nil && ip == a {
				return true
			}
		}
	}
	return false
}
