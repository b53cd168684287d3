package projections

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// neighbourFailed: a next hop to backends does not say where it is.
var neighbourFailed = rule{
	name: "neighbour-failed", level: LevelError, hold: 10 * time.Second, needs: []string{"host", "kube", "bpfmap"},
	means: "packets to it are dropped on this node (no next hop): the machine is down, or not on that network any more, or ARP and neighbour discovery are filtered",
	on:    []topic{topicHost, topicKube},
	node: func(s *State) (found []problem) {
		failed, _ := s.nextHops()
		for _, a := range s.ownAddresses() {
			delete(failed, a) // Cilium looks for the node itself too, in vain
		}
		if len(failed) == 0 {
			return nil
		}
		for a, o := range s.backendNodes() {
			if n := failed[a]; n != nil {
				found = append(found, problem{subject: a.String(), text: fmt.Sprintf("%s of the node %s, which has backends, does not answer on %s", a, o.Name, n.Device)})
				delete(failed, a)
			}
		}
		for _, b := range s.LB.backends {
			if n := failed[b.Address.Addr()]; n != nil {
				found = append(found, problem{subject: b.Address.Addr().String(), text: fmt.Sprintf("the backend %s does not answer on %s", b.Address.Addr(), n.Device)})
				delete(failed, b.Address.Addr())
			}
		}
		return found
	},
}

// neighbourMissing: Cilium looks for the link addresses of all next hops, and has not that of a node with backends.
var neighbourMissing = rule{
	name: "neighbour-missing", level: LevelWarning, hold: 60 * time.Second, needs: []string{"host", "kube", "agent"},
	means: "where packets are sent on before the kernel's stack (XDP) those to backends on that node are dropped until its link address is known, and elsewhere the first of them waits; see the agent's log for neighbour discovery",
	on:    []topic{topicHost, topicKube, topicAgent},
	node: func(s *State) (found []problem) {
		if !s.discoversNeighbours() || s.Host.Neighbours.GetOmitted() > 0 {
			return nil
		}
		failed, known := s.nextHops()
		c := s.joins.config
		for a, o := range s.backendNodes() {
			if !known[a] && failed[a] == nil && (a.Is4() && c.EnableIPv4 || a.Is6() && c.EnableIPv6) {
				found = append(found, problem{subject: a.String(), text: fmt.Sprintf("%s of the node %s, which has backends, is not among the kernel's neighbours", a, o.Name)})
			}
		}
		return found
	},
}

// nextHops are the kernel's neighbours by address: those that do not answer on any device, and the others.
func (s *State) nextHops() (failed map[netip.Addr]*eventpb.Neighbour, known map[netip.Addr]bool) {
	failed, known = map[netip.Addr]*eventpb.Neighbour{}, map[netip.Addr]bool{}
	for _, n := range s.Host.Neighbours.GetNeighbours() {
		a, err := netip.ParseAddr(n.Address)
		switch {
		case err != nil:
		case n.State != "FAILED" && n.State != "INCOMPLETE":
			known[a] = true
			delete(failed, a)
		case !known[a] && failed[a] == nil:
			failed[a] = n
		}
	}
	return failed, known
}

// ownAddresses are this node's.
func (s *State) ownAddresses() []netip.Addr {
	list := addrsOf(s.thisNode().GetNode().GetInternalIps())
	if s.joins.status != nil {
		for _, d := range s.joins.status.Replacement.Devices {
			list = append(list, addrsOf(d.IP)...)
		}
	}
	return list
}

// discoversNeighbours says that the agent puts the link addresses of all nodes into the kernel, and that these are on networks of
// this node: with routes from node to node they are.
func (s *State) discoversNeighbours() bool {
	c, f := s.joins.config, s.features()
	if s.Host.Neighbours == nil || c == nil || f == nil || !c.EnableAutoDirectRouting || c.DirectRoutingSkipUnreachable {
		return false
	}
	xdp := f.NodePort.Acceleration != "" && f.NodePort.Acceleration != "Disabled"
	return xdp || slices.ContainsFunc(s.Host.Neighbours.Neighbours, func(n *eventpb.Neighbour) bool { return slices.Contains(n.Flags, "extern_learn") })
}

// backendNodes are the other nodes that have ready endpoints, by address.
func (s *State) backendNodes() map[netip.Addr]*eventpb.KubeObject {
	all := map[netip.Addr]*eventpb.KubeObject{}
	for _, name := range sortedNames(s.joins.endpointNodes) {
		if o := s.Object(eventpb.Kind_KIND_NODE, "", name); o != nil && o != s.thisNode() {
			for _, a := range addrsOf(o.GetNode().GetInternalIps()) {
				all[a] = o
			}
		}
	}
	return all
}
