package projections

import (
	"fmt"
	"net/netip"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// frontendLeftBehind: the map has a frontend that nobody wants any more.
var frontendLeftBehind = rule{
	name: "frontend-left-behind", level: LevelError, hold: apiHold, needs: []string{"kube", "bpfmap"},
	means: "connections to this address and port are still taken, and go where they went before; restart the agent, which then prunes the maps",
	frontend: func(s *State, k frontendKey, f *Frontend) []problem {
		// Port 0 takes what no other frontend of its address does, and local redirects have addresses of their own.
		if f == nil || !f.Head || k.address.Port() == 0 || f.Flags&cilium.FlagLocalRedirect != 0 {
			return nil
		}
		if _, ok := s.owner(k); ok {
			return nil
		}
		last, had := s.owners[k]
		row, inAgent := s.agentRowOf(k, f)
		if !had && (inAgent || !s.agentKnown()) {
			return nil // of another source than Kubernetes, as far as is known
		}
		text := fmt.Sprintf("no Service or pod claims %s (%s)", k, f.Flags.Type())
		if had {
			text += "; " + s.lastOwner(last)
		}
		switch {
		case !s.agentKnown():
		case inAgent:
			text += fmt.Sprintf("; the agent still has it, as of %s: the agent is behind the API", row.ServiceName)
		default:
			text += "; the agent has it no more: the map is behind the agent"
		}
		return []problem{{subject: k.String(), text: text}}
	},
}

// lastOwner tells what became of an owner.
func (s *State) lastOwner(o Owner) string {
	kind := eventpb.Kind_KIND_SERVICE
	if o.Kind == "Pod" {
		kind = eventpb.Kind_KIND_POD
	}
	now := s.Kube[kind][o.Name]
	text := fmt.Sprintf("it was of the %s %s (uid %s), which ", o.Kind, o.Name, o.UID)
	switch {
	case now == nil:
		return text + "is gone"
	case now.Uid != o.UID:
		return text + "is gone; another of that name is there"
	case o.Kind == "Pod":
		return text + "is " + now.GetPod().GetPhase() + " and its address is not among the backends"
	}
	return text + "has it no more"
}

// frontendMissing: a Service has an address that the map does not know.
var frontendMissing = rule{
	name: "frontend-missing", level: LevelError, hold: apiHold, needs: []string{"kube", "bpfmap"},
	means: "connections to this address and port are not load balanced: they leave the node or find nobody; see the agent's log",
	service: func(s *State, n Name, o *eventpb.KubeObject) (found []problem) {
		if o == nil || o.Deleting || !served(o) {
			return nil
		}
		for _, w := range s.frontendsWanted(o) {
			if s.inMap(w.key) || w.agentOnly && !s.agentHas(w.key) {
				continue
			}
			text := fmt.Sprintf("%s of %s (%s) is not in the map", w.key, n, w.what)
			if s.agentKnown() {
				switch row, ok := s.agentRow(w.key); {
				case !ok:
					text += "; the agent has not got it either: the agent is behind the API, or refuses it"
				default:
					text += "; the agent has it" + row.progress()
				}
			}
			found = append(found, problem{subject: w.key.String(), text: text})
		}
		return found
	},
}

// wantedFrontend is a frontend that a Service should have in the map.
type wantedFrontend struct {
	key       frontendKey
	what      string // which of the Service's addresses it is
	agentOnly bool   // whether Cilium takes it rests on what is not recorded: it is wanted where the agent has it
}

// frontendsWanted are the Service's frontends of the families whose maps there are, less those at each of the node's addresses.
func (s *State) frontendsWanted(o *eventpb.KubeObject) []wantedFrontend {
	svc := o.GetService()
	v4, v6 := s.mapOf(cilium.Services4) != nil, s.mapOf(cilium.Services6) != nil
	var list []wantedFrontend
	add := func(text, what string, agentOnly bool) {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Is6() && !v6 || a.Is4() && !v4 {
			return
		}
		for _, p := range svc.Ports {
			port := p.Port
			if a.IsUnspecified() {
				port = p.NodePort
			}
			if port != 0 {
				list = append(list, wantedFrontend{frontendKey{address: netip.AddrPortFrom(a, uint16(port)), proto: protoOf(p.Protocol)}, what, agentOnly})
			}
		}
	}
	for _, text := range svc.ClusterIps {
		add(text, "ClusterIP", false)
	}
	for _, text := range svc.ExternalIps {
		add(text, "external IP", true)
	}
	for _, text := range svc.LoadBalancerIps {
		add(text, "load balancer IP", true)
	}
	if s.kubeProxyReplaced() && (svc.Type == "NodePort" || svc.Type == "LoadBalancer") {
		for _, family := range familiesOf(svc) {
			add(unspecified(family == "IPv6").String(), "NodePort", false)
		}
	}
	return list
}

// familiesOf are the Service's IP families; those of its ClusterIPs where it does not say.
func familiesOf(svc *eventpb.Service) []string {
	if len(svc.IpFamilies) > 0 {
		return svc.IpFamilies
	}
	var list []string
	for _, text := range svc.ClusterIps {
		if a, err := netip.ParseAddr(text); err == nil {
			list = appendNew(list, familyOf(a))
		}
	}
	return list
}

func familyOf(a netip.Addr) string {
	if a.Is6() {
		return "IPv6"
	}
	return "IPv4"
}

// inMap says that the map has the frontend, of its protocol or of any.
func (s *State) inMap(k frontendKey) bool {
	for _, proto := range []cilium.Proto{k.proto, cilium.Any} {
		if f := s.LB.frontends[frontendKey{k.address, proto, k.scope}]; f != nil && f.Head {
			return true
		}
	}
	return false
}

func (s *State) agentHas(k frontendKey) bool {
	_, ok := s.agentRow(k)
	return ok && s.agentKnown()
}

// hostPortMissing: a pod of this node has a hostPort that the map does not know.
var hostPortMissing = rule{
	name: "host-port-missing", level: LevelError, hold: apiHold, needs: []string{"kube", "bpfmap", "agent"},
	means: "connections to the pod's hostPort are refused; recreate the pod, or restart the agent",
	on:    []topic{topicServices, topicKube, topicAgent},
	node: func(s *State) (found []problem) {
		if !s.kubeProxyReplaced() {
			return nil
		}
		for at, names := range s.joins.hostPorts {
			if port := at.address.Port(); port >= 30000 && port <= 32767 {
				continue // Cilium leaves the range of NodePorts alone
			}
			if p, ok := s.hostPortProblem(at, names); ok {
				found = append(found, p)
			}
		}
		return found
	},
}

// hostPortProblem judges one host port: one of the running pods that have it must be served.
func (s *State) hostPortProblem(at l4, names []Name) (problem, bool) {
	var lacking *eventpb.KubeObject
	for _, n := range names {
		o := s.pod(n.Namespace, n.Name)
		ip, ok := podIP(o)
		if !ok || o.Deleting || o.GetPod().Phase != "Running" || s.mapOf(servicesOf(ip.Is6())) == nil {
			continue
		}
		if s.servesHostPort(at, ip.Is6()) {
			return problem{}, false
		}
		if lacking == nil {
			lacking = o
		}
	}
	if lacking == nil {
		return problem{}, false
	}
	name := Name{lacking.Namespace, lacking.Name}
	subject := fmt.Sprintf("%d/%s", at.address.Port(), at.proto)
	return problem{subject: subject, text: fmt.Sprintf("the hostPort %s of pod %s (uid %s) has no frontend in the map", subject, name, lacking.Uid)}, true
}

func servicesOf(v6 bool) cilium.Kind {
	if v6 {
		return cilium.Services6
	}
	return cilium.Services4
}

// servesHostPort says that a frontend of that port is there, at every address or at the one that the pod names.
func (s *State) servesHostPort(at l4, v6 bool) bool {
	for k := range s.LB.ports[at.address.Port()] {
		if (k.proto == at.proto || k.proto == cilium.Any) && k.v6() == v6 && s.LB.frontends[k].Flags&cilium.FlagHostPort != 0 {
			return true
		}
	}
	return false
}
