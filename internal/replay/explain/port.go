package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// Port explains a port of the node: who takes what is sent to it.
func Port(number uint16) Subject {
	return func(e *Explanation) error {
		e.Subject = fmt.Sprintf("port %d of the node", number)
		p := &port{Explanation: e, number: number, text: strconv.Itoa(int(number))}
		p.explain()
		return nil
	}
}

type port struct {
	*Explanation
	number uint16
	text   string

	fronts    []*frontend
	listeners []*eventpb.Socket
	programs  []*eventpb.Attachment // that take packets at the node's own devices
}

func (p *port) explain() {
	p.inAPI()
	p.inMap()
	p.onNode()
	p.rulesView()
	if len(p.fronts) > 0 {
		p.taken()
	} else {
		p.notTaken()
	}
	p.rules()
}

// inAPI finds the Services and pods that ask for the port on the node.
func (p *port) inAPI() {
	for _, o := range p.state.Objects(eventpb.Kind_KIND_SERVICE) {
		for _, sp := range o.GetService().GetPorts() {
			if sp.NodePort == int32(p.number) {
				p.view("API", fmt.Sprintf("Service %s/%s", o.Namespace, o.Name), fmt.Sprintf("nodePort %d for port %d/%s → %s", sp.NodePort, sp.Port, sp.Protocol, sp.TargetPort), objectOf(eventpb.Kind_KIND_SERVICE, o))
			}
		}
	}
	for _, o := range p.state.Objects(eventpb.Kind_KIND_POD) {
		for _, c := range o.GetPod().GetContainers() {
			for _, cp := range c.Ports {
				if cp.HostPort == int32(p.number) {
					p.view("API", fmt.Sprintf("Pod %s/%s", o.Namespace, o.Name), fmt.Sprintf("hostPort %d for port %d/%s", cp.HostPort, cp.Port, cp.Protocol), objectOf(eventpb.Kind_KIND_POD, o))
				}
			}
		}
	}
}

// inMap finds the frontends with the port at the node's addresses. ClusterIP frontends are none of the node's.
func (p *port) inMap() {
	p.fronts = p.frontends(func(s cilium.Service) bool {
		return s.Frontend.Port() == p.number && (s.Flags.Type() != "ClusterIP" || !s.Head() || p.nodeHas(s.Frontend.Addr()))
	})
	p.fronts = slices.DeleteFunc(p.fronts, func(f *frontend) bool { return f.head.Value.Flags.Type() == "ClusterIP" })
	for _, f := range p.fronts {
		p.view("map", "frontend "+f.name(), f.says(), f.facts()...)
	}
	if p.state.MapOf(cilium.Services4) == nil && p.state.MapOf(cilium.Services6) == nil {
		p.unknown("whether a frontend has the port", "bpfmap: the map of Services")
	}
}

// onNode finds listeners on the port, and the programs at the node's own devices.
func (p *port) onNode() {
	if p.state.Host.Listeners == nil {
		p.unknown("whether a socket listens on the port", "host: the node's listening sockets")
	} else {
		for _, s := range p.state.Host.Listeners.Sockets {
			if projections.PortOf(s.Local) == p.number {
				p.listeners = append(p.listeners, s)
			}
		}
		p.view("node", "listeners", listenerTexts(p.listeners), theListeners)
	}
	if p.state.Host.Attachments == nil {
		p.unknown("which program takes the packets", "host: the programs attached to the node's devices")
		return
	}
	ofPods := p.state.EndpointDevices()
	for _, a := range p.state.Host.Attachments.Attachments {
		if takesPackets(a) && !ofPods[a.Ifindex] {
			p.programs = append(p.programs, a)
		}
	}
	if len(p.programs) > 0 {
		p.view("node", "programs", programTexts(p.programs), theAttachments)
	}
}

func listenerTexts(list []*eventpb.Socket) string {
	var out []string
	for _, s := range list {
		out = append(out, s.Protocol+" "+s.Local)
	}
	if len(out) == 0 {
		return "none on the port"
	}
	return strings.Join(out, ", ")
}

// takesPackets says that a program translates what comes in from the network: Cilium's names are cil_from_netdev and
// cil_xdp_entry.
func takesPackets(a *eventpb.Attachment) bool {
	in := a.Attach == "tcx/ingress" || a.Attach == "tc/ingress" || a.Attach == "xdp"
	return in && (strings.HasPrefix(a.Program, "cil_from_netdev") || strings.HasPrefix(a.Program, "cil_xdp"))
}

func programTexts(list []*eventpb.Attachment) string {
	var out []string
	for _, a := range list {
		out = append(out, fmt.Sprintf("%s at %s of %s", a.Program, a.Attach, a.Device))
	}
	return strings.Join(out, ", ")
}

// taken explains a port that the map has: it is answered, or refused, without a listener.
func (p *port) taken() {
	for _, group := range p.alike() {
		p.frontendsAlike(group)
	}
	heads, served := []fact{}, false
	for _, f := range p.fronts {
		heads = append(heads, entryOf(f.head))
		served = served || len(f.slots) > 0
	}
	switch {
	case p.state.Host.Listeners == nil:
	case len(p.listeners) > 0 && len(p.programs) > 0:
		p.say(fmt.Sprintf("A socket listens on the port too (%s): what comes in from the network is taken by %s before it, and does not reach it.", listenerTexts(p.listeners), programTexts(p.programs)), append(heads, theListeners, theAttachments)...)
	case len(p.listeners) > 0:
		p.say(fmt.Sprintf("A socket listens on the port too (%s), and collides with the frontend.", listenerTexts(p.listeners)), append(heads, theListeners)...)
	case len(p.programs) > 0 && !served:
		p.say(fmt.Sprintf("No socket listens on the port, and none would be asked: %s takes the packet before the node looks for a socket.", programTexts(p.programs)), append(heads, theListeners, theAttachments)...)
	case len(p.programs) > 0:
		p.say(fmt.Sprintf("No socket listens on the port, and none is needed: %s takes the packet and sends it to a backend before the node looks for a socket.", programTexts(p.programs)), append(heads, theListeners, theAttachments)...)
	default:
		p.say("No socket listens on the port: the frontend is an entry of a map.", append(heads, theListeners)...)
	}
	p.fromNode(heads)
	asked := !served // a frontend without backends asks for itself
	for _, f := range p.fronts {
		asked = p.probed(f.head.Value.Frontend) || asked
	}
	p.onceEach()
	if !asked {
		p.unknown("what a request to the port gets", "probe")
	}
}

// onceEach drops what several frontends of the port said in the same words.
func (p *port) onceEach() {
	seen := map[string]bool{}
	p.Statements = slices.DeleteFunc(p.Statements, func(s Statement) bool {
		had := seen[s.Text]
		seen[s.Text] = true
		return had
	})
	p.Views = slices.DeleteFunc(p.Views, func(v View) bool {
		had := seen[v.View+v.What]
		seen[v.View+v.What] = true
		return had
	})
}

// alike groups the frontends that have the same type and go to the same backends: those of the node's addresses.
func (p *port) alike() [][]*frontend {
	var groups [][]*frontend
	same := func(a, b *frontend) bool {
		return a.head.Value.Flags.Type() == b.head.Value.Flags.Type() && slices.Equal(a.addresses(), b.addresses())
	}
	for _, f := range p.fronts {
		i := slices.IndexFunc(groups, func(g []*frontend) bool { return same(g[0], f) })
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

func (p *port) frontendsAlike(group []*frontend) {
	owner, facts := p.ownerOfPort(group[0])
	var names []string
	for _, f := range group {
		names = append(names, f.name())
		facts = append(facts, f.facts()...)
	}
	is := fmt.Sprintf("%s %s of %s", strings.Join(names, " and "), verb(len(group), "is the "+group[0].head.Value.Flags.Type()+" frontend", "are "+group[0].head.Value.Flags.Type()+" frontends"), owner)
	if have := group[0].addresses(); len(have) > 0 {
		p.say(fmt.Sprintf("%s: what is sent there goes to %s %s.", is, oneOf(len(have)), texts(have)), facts...)
	} else {
		p.say(is+", without a backend.", facts...)
	}
	for _, f := range group {
		if len(f.slots) == 0 {
			p.noBackend(f)
		}
		p.dangling(f)
		if f.head.Value.Flags.Type() == "HostPort" {
			p.leftOver(f)
		}
	}
}

func oneOf(n int) string {
	if n == 1 {
		return "the one backend"
	}
	return "one of"
}

// leftOver finds HostPort frontends whose pod is gone.
func (p *port) leftOver(f *frontend) {
	for _, s := range f.slots {
		if s.backend != nil && p.podAt(s.backend.Value.Address.Addr()) == nil {
			list := fact{listOf, eventpb.Kind_KIND_POD.String(), ""}
			p.say(fmt.Sprintf("No pod of this node has the address %s: the frontend is left over from a pod that is gone.", s.backend.Value.Address.Addr()), append(s.facts(), list)...)
		}
	}
}

// ownerOfPort is the Service with the nodePort, else the agent's row of the frontend.
func (p *port) ownerOfPort(f *frontend) (string, []fact) {
	for _, o := range p.state.Objects(eventpb.Kind_KIND_SERVICE) {
		for _, sp := range o.GetService().GetPorts() {
			if sp.NodePort == int32(p.number) {
				return "Service " + o.Namespace + "/" + o.Name, []fact{objectOf(eventpb.Kind_KIND_SERVICE, o)}
			}
		}
	}
	return p.owner(f)
}

// fromNode tells of requests that the node itself makes: they are translated in connect().
func (p *port) fromNode(heads []fact) {
	for _, a := range p.state.Host.Attachments.GetAttachments() {
		if a.Cgroup != "" && strings.HasSuffix(a.Program, "_connect") {
			p.say(fmt.Sprintf("A request from the node itself does not pass there: %s on the cgroup rewrites the address inside connect().", a.Program), append(heads, theAttachments)...)
			return
		}
	}
}

// notTaken explains a port that the map does not have.
func (p *port) notTaken() {
	whole := p.wholeMaps(cilium.Services4)
	if len(whole) == 0 {
		return
	}
	facts := append(whole, lastRead(whole[0].name))
	switch {
	case p.state.Host.Listeners == nil:
		p.say("No NodePort, HostPort or LoadBalancer frontend in the map has the port.", facts...)
	case len(p.listeners) > 0:
		p.say(fmt.Sprintf("No frontend in the map has the port; a socket listens on it (%s): an ordinary port of the node.", listenerTexts(p.listeners)), append(facts, theListeners)...)
	default:
		p.say("No frontend in the map has the port and no socket listens on it: nobody on the node takes a request.", append(facts, theListeners)...)
	}
	for _, v := range p.Views {
		if v.View == "API" {
			p.say(fmt.Sprintf("%s asks for the port, and the map does not have it (yet).", v.What), append(slices.Clone(facts), v.facts...)...)
		}
	}
	if a, ok := netip.AddrFromSlice([]byte{0, 0, 0, 0}); ok && p.probed(netip.AddrPortFrom(a, p.number)) {
		p.onceEach()
	}
}

func (p *port) rulesView() {
	if n, ok := p.state.RuleLines(p.text); ok {
		p.view("node", "iptables-save", count(n, "line")+" with "+p.text, theRules)
	} else {
		p.unknown("whether a rule of iptables names the port", "host: the output of iptables-save")
	}
}

// rules says whether a rule of iptables names the port.
func (p *port) rules() {
	n, ok := p.state.RuleLines(p.text)
	mode, known := p.state.KubeProxyReplacement()
	switch {
	case !ok:
	case n > 0:
		p.say(fmt.Sprintf("%s of iptables-save %s %s: something besides Cilium may take the port.", count(n, "line"), verb(n, "has", "have"), p.text), theRules)
	case known && len(p.fronts) > 0:
		p.say(fmt.Sprintf("No line of iptables-save has %s: Cilium replaces kube-proxy (%s), so the port is an entry of a map and not a rule.", p.text, mode), theRules, theStatus)
	}
}
