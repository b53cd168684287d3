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

// Service explains one Service: what the API wants, what the agent makes of it, what the map holds.
func Service(namespace, name string) Subject {
	return func(e *Explanation) error {
		s := &service{Explanation: e, name: namespace + "/" + name, namespace: namespace, short: name}
		e.Subject = "service " + s.name
		return s.explain()
	}
}

type service struct {
	*Explanation
	name, namespace, short string

	object    *eventpb.KubeObject
	slices    []*eventpb.KubeObject
	rows      []projections.AgentFrontend
	frontends []*frontend
}

func (s *service) explain() error {
	s.object = s.state.Object(eventpb.Kind_KIND_SERVICE, s.namespace, s.short)
	for _, o := range s.state.Objects(eventpb.Kind_KIND_ENDPOINT_SLICE) {
		if o.Namespace == s.namespace && o.GetEndpointSlice().GetService() == s.short {
			s.slices = append(s.slices, o)
		}
	}
	for _, r := range s.state.AgentFrontends() {
		if r.Service == s.name {
			s.rows = append(s.rows, r)
		}
	}
	addresses := s.addresses()
	s.frontends = s.Explanation.frontends(func(v cilium.Service) bool { return addresses[v.Frontend] })
	if s.object == nil && len(s.rows) == 0 && len(s.slices) == 0 {
		return s.absent()
	}
	s.views()
	for _, f := range s.frontends {
		s.compare(f)
		s.dangling(f)
	}
	s.missing(addresses)
	s.way()
	return nil
}

// absent says which Services there are, since this one is not.
func (s *service) absent() error {
	var names []string
	for _, o := range s.state.Objects(eventpb.Kind_KIND_SERVICE) {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	return fmt.Errorf("service %s is not known at seq:%d; known are %s", s.name, s.Seq, strings.Join(names, ", "))
}

// addresses are those that the Service's frontends can have, by the API and by the agent.
func (s *service) addresses() map[netip.AddrPort]bool {
	found := map[netip.AddrPort]bool{}
	add := func(texts []string, port int32) {
		for _, t := range texts {
			if a, err := netip.ParseAddr(t); err == nil && port > 0 {
				found[netip.AddrPortFrom(a, uint16(port))] = true
			}
		}
	}
	svc := s.object.GetService()
	for _, p := range svc.GetPorts() {
		for _, list := range [][]string{svc.GetClusterIps(), svc.GetExternalIps(), svc.GetLoadBalancerIps()} {
			add(list, p.Port)
		}
		for _, n := range s.state.Objects(eventpb.Kind_KIND_NODE) {
			add(n.GetNode().GetInternalIps(), p.NodePort)
		}
		add([]string{"0.0.0.0", "::"}, p.NodePort)
	}
	for _, r := range s.rows {
		if a, ok := projections.AddressOf(r.Address); ok {
			found[a] = true
		}
	}
	return found
}

func (s *service) views() {
	if o := s.object; o != nil {
		svc := o.GetService()
		s.view("API", "Service "+s.name, fmt.Sprintf("%s %s, ports %s", svc.GetType(), strings.Join(svc.GetClusterIps(), ", "), projections.PortTexts(svc)), objectOf(eventpb.Kind_KIND_SERVICE, o))
	}
	for _, o := range s.slices {
		s.view("API", "EndpointSlice "+o.Name, sliceText(o), objectOf(eventpb.Kind_KIND_ENDPOINT_SLICE, o))
	}
	if s.state.Agent["frontend"] == nil {
		s.unknown("which frontends the agent has", "agent: its table of frontends")
	}
	for _, r := range s.rows {
		text := "no backend"
		if len(r.Backends) > 0 {
			text = strings.Join(agentTexts(r), ", ")
		}
		if r.Reconciled != "" {
			text += fmt.Sprintf("; reconciled: %s at %s", r.Reconciled, millis(r.ReconciledNs))
		}
		s.view("agent", "frontend "+r.Address, text, fact{agentRow, "frontend", r.Key})
	}
	for _, f := range s.frontends {
		s.view("map", "frontend "+f.name(), f.says(), f.facts()...)
	}
}

func agentTexts(r projections.AgentFrontend) []string {
	var list []string
	for _, b := range r.Backends {
		text := b.Address.String()
		if b.State != "active" {
			text += " (" + b.State + ")"
		}
		list = append(list, text)
	}
	return list
}

// sliceText lists the slice's endpoints by their conditions.
func sliceText(o *eventpb.KubeObject) string {
	by := map[string][]string{}
	for _, e := range o.GetEndpointSlice().GetEndpoints() {
		c := projections.Conditions(e)
		by[c] = append(by[c], e.Addresses...)
	}
	var texts []string
	for _, c := range []string{"ready", "ready, terminating", "serving", "serving, terminating", "not ready", "not ready, terminating"} {
		if len(by[c]) > 0 {
			slices.SortFunc(by[c], byAddress)
			texts = append(texts, c+": "+strings.Join(by[c], ", "))
		}
	}
	if len(texts) == 0 {
		return "no endpoint"
	}
	ports := []string{}
	for _, p := range o.GetEndpointSlice().GetPorts() {
		ports = append(ports, strconv.Itoa(int(p.GetPort())))
	}
	return strings.Join(texts, "; ") + "; port " + strings.Join(ports, ", ")
}

// port is the Service's port that a frontend is of.
func (s *service) port(f *frontend) *eventpb.ServicePort {
	for _, p := range s.object.GetService().GetPorts() {
		at := int32(f.head.Value.Frontend.Port())
		if at == p.Port || at == p.NodePort {
			return p
		}
	}
	return nil
}

// endpoint is one address that the API gives for a frontend.
type endpoint struct {
	conditions string
	pod        string
	slice      fact
}

// endpoints are what the API gives for the frontend; with a policy Local only those of this node.
func (s *service) endpoints(f *frontend) map[netip.AddrPort]endpoint {
	found := map[netip.AddrPort]endpoint{}
	port, v := s.port(f), f.head.Value
	local := !v.Internal && v.Flags&cilium.FlagExternalLocal != 0 || v.Internal && v.Flags&cilium.FlagInternalLocal != 0
	for _, o := range s.slices {
		for _, p := range o.GetEndpointSlice().GetPorts() {
			if p.Port == nil || p.Name != port.GetName() {
				continue
			}
			for _, e := range o.GetEndpointSlice().GetEndpoints() {
				if local && e.NodeName != s.state.Node {
					continue
				}
				for _, text := range e.Addresses {
					if a, err := netip.ParseAddr(text); err == nil {
						found[netip.AddrPortFrom(a, uint16(p.GetPort()))] = endpoint{projections.Conditions(e), e.TargetName, objectOf(eventpb.Kind_KIND_ENDPOINT_SLICE, o)}
					}
				}
			}
		}
	}
	return found
}

func (s *service) sliceFacts() []fact {
	var list []fact
	for _, o := range s.slices {
		list = append(list, objectOf(eventpb.Kind_KIND_ENDPOINT_SLICE, o))
	}
	if len(list) == 0 {
		list = append(list, fact{listOf, eventpb.Kind_KIND_ENDPOINT_SLICE.String(), ""})
	}
	return list
}

// row is the agent's row of a frontend.
func (s *service) row(f *frontend) *projections.AgentFrontend {
	for i, r := range s.rows {
		a, ok := projections.AddressOf(r.Address)
		if ok && a == f.head.Value.Frontend && strings.HasSuffix(r.Address, "/i") == f.head.Value.Internal {
			return &s.rows[i]
		}
	}
	return nil
}

// compare says whether API, agent and map agree on a frontend's backends, and where they do not.
func (s *service) compare(f *frontend) {
	want, have := s.endpoints(f), f.addresses()
	var ready []netip.AddrPort
	for a, e := range want {
		if strings.HasPrefix(e.conditions, "ready") {
			ready = append(ready, a)
		}
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	if len(ready) == 0 && len(have) == 0 {
		s.nobody(f)
		return
	}
	agree := true
	for _, a := range ready {
		if !slices.Contains(have, a) {
			s.notInMap(f, a, want[a])
			agree = false
		}
	}
	for _, sl := range f.slots {
		if sl.backend != nil && !slices.Contains(ready, sl.backend.Value.Address) {
			s.notReady(f, sl, want, len(ready))
			agree = false
		}
	}
	if agree {
		s.agreed(f, have)
	}
}

func (s *service) agreed(f *frontend, have []netip.AddrPort) {
	facts, who := append(s.sliceFacts(), f.facts()...), "API and map agree"
	if r := s.row(f); r != nil && sameBackends(r, have) {
		facts, who = append(facts, fact{agentRow, "frontend", r.Key}), "API, agent and map agree"
	}
	s.say(fmt.Sprintf("%s: a new connection to %s goes to one of %s.", who, f.name(), texts(have)), facts...)
}

func sameBackends(r *projections.AgentFrontend, have []netip.AddrPort) bool {
	var list []netip.AddrPort
	for _, b := range r.Backends {
		if b.State == "active" {
			list = append(list, b.Address)
		}
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Equal(slices.Compact(list), have)
}

// notInMap says that a ready address has no slot, and how far the agent got.
func (s *service) notInMap(f *frontend, a netip.AddrPort, e endpoint) {
	s.say(fmt.Sprintf("%s (%s) is ready by the API and has no slot in %s: no new connection goes there yet.", a, e.pod, f.name()), append([]fact{e.slice}, f.facts()...)...)
	r := s.row(f)
	if r == nil {
		s.unknown("whether the agent has "+a.String(), "agent")
		return
	}
	row := fact{agentRow, "frontend", r.Key}
	has := slices.ContainsFunc(r.Backends, func(b projections.AgentBackend) bool { return b.Address == a })
	switch {
	case !has:
		s.say(fmt.Sprintf("The agent's frontend does not have %s: the agent has not taken in the EndpointSlice.", a), row, e.slice)
	case r.Reconciled == "Done":
		s.say(fmt.Sprintf("The agent has %s and says that it wrote the map (Done, %s): the map was read before that, or is not the one that the agent writes.", a, millis(r.ReconciledNs)), append(f.facts(), row)...)
	default:
		s.say(fmt.Sprintf("The agent has %s and has not written the map yet (%s).", a, r.Reconciled), row)
	}
}

// notReady says why a slot may name an address that is not ready.
func (s *service) notReady(f *frontend, sl slot, want map[netip.AddrPort]endpoint, ready int) {
	a := sl.backend.Value.Address
	e, listed := want[a]
	facts := append(s.sliceFacts(), append(sl.facts(), entryOf(f.head))...)
	switch {
	case !listed:
		s.say(fmt.Sprintf("Slot %d of %s still names %s, which no EndpointSlice has: a new connection may go there and fail.", sl.entry.Value.Slot, f.name(), a), facts...)
	case strings.Contains(e.conditions, "terminating") && ready == 0:
		s.say(fmt.Sprintf("Slot %d of %s names %s, which is %s: no endpoint is ready, so those that still serve while they terminate are taken.", sl.entry.Value.Slot, f.name(), a, e.conditions), facts...)
	case sl.backend.Value.State == cilium.BackendTerminating:
		s.say(fmt.Sprintf("%s is %s by the API and terminating in the map: connections to it live on, new ones go elsewhere.", a, e.conditions), facts...)
	default:
		s.say(fmt.Sprintf("Slot %d of %s still names %s, which is %s by the API: a new connection may go there.", sl.entry.Value.Slot, f.name(), a, e.conditions), facts...)
	}
}
