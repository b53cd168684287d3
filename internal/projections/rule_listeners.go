package projections

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// listenerCollision: a process of the node listens where a NodePort or hostPort is.
var listenerCollision = rule{
	name: "listener-collision", level: LevelWarning, hold: 5 * time.Second, needs: []string{"host", "bpfmap", "agent"},
	means: "Cilium takes connections to this port before the process sees them, also some that the node makes to itself; give the process or the Service another port",
	on:    []topic{topicHost, topicServices, topicAgent},
	node: func(s *State) (found []problem) {
		if !s.kubeProxyReplaced() {
			return nil
		}
		for port, sockets := range s.Host.listeners {
			if len(s.LB.ports[port]) > 0 {
				found = append(found, s.collisions(port, sockets)...)
			}
		}
		return found
	},
}

// collisions are those of one port, one for each protocol.
func (s *State) collisions(port uint16, sockets []*eventpb.Socket) (found []problem) {
	fronts := make([]frontendKey, 0, len(s.LB.ports[port]))
	for k := range s.LB.ports[port] {
		fronts = append(fronts, k)
	}
	slices.SortFunc(fronts, frontendKey.compare)
	told := map[cilium.Proto]bool{}
	for _, l := range sockets {
		proto := protoOf(strings.ToUpper(strings.TrimSuffix(l.Protocol, "6")))
		i := slices.IndexFunc(fronts, func(k frontendKey) bool {
			return (k.proto == proto || k.proto == cilium.Any) && collides(l, k.address.Addr())
		})
		if i < 0 || told[proto] {
			continue
		}
		told[proto] = true
		k := fronts[i]
		text := fmt.Sprintf("a process of the node listens on %s (%s), which is the %s %s", l.Local, l.Protocol, s.LB.frontends[k].Flags.Type(), k)
		if o, ok := s.owner(k); ok {
			text += fmt.Sprintf(" of the %s %s", o.Kind, o.Name)
		}
		found = append(found, problem{subject: fmt.Sprintf("%d/%s", port, proto), text: text})
	}
	return found
}

// collides says that a frontend takes what is sent to a socket. A frontend at every address takes what is sent to the node's, and
// what the node sends to itself; [::] listens for IPv4 too.
func collides(l *eventpb.Socket, front netip.Addr) bool {
	at, err := netip.ParseAddrPort(l.Local)
	if err != nil {
		return false
	}
	a := at.Addr().Unmap()
	switch {
	case a == netip.IPv6Unspecified():
		return true
	case a.Is6() != front.Is6():
		return false
	case front.IsUnspecified():
		return a.IsUnspecified() || a.IsLoopback()
	}
	return a.IsUnspecified() || a == front
}
