package explain

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// nobody explains what a frontend without backends does with a request.
func (s *service) nobody(f *frontend) {
	facts := append(s.sliceFacts(), f.facts()...)
	why := "no endpoint of it is ready"
	switch {
	case s.object != nil && len(s.object.GetService().GetSelector()) == 0:
		why = "it selects no pods, and no EndpointSlice has a ready endpoint"
		facts = append(facts, objectOf(eventpb.Kind_KIND_SERVICE, s.object))
	case len(s.slices) == 0:
		why = "it has no EndpointSlice"
	}
	s.say(fmt.Sprintf("%s has no backend: %s, and the map has the frontend without slots.", f.name(), why), facts...)
	s.noBackend(f)
}

// noBackend says what happens to a request to a frontend without slots, and what a probe got.
func (e *Explanation) noBackend(f *frontend) {
	response, ok := e.state.NoBackendResponse()
	head := entryOf(f.head)
	switch {
	case !ok:
		e.unknown("whether a request to "+f.name()+" is refused or dropped", "agent: its configuration has ServiceNoBackendResponse")
	case response == "reject":
		e.say(fmt.Sprintf("A request to %s is refused at once, because it has no backend and the agent is set to reject (ServiceNoBackendResponse=reject).", f.name()), head, theConfig)
	default:
		e.say(fmt.Sprintf("A request to %s times out, because it has no backend and the agent is set to %s (ServiceNoBackendResponse=%s).", f.name(), response, response), head, theConfig)
	}
	if !e.probed(f.head.Value.Frontend) {
		e.unknown("what a request to "+f.name()+" got", "probe")
	}
}

// probed tells what the probes of an address got; false when there is none.
func (e *Explanation) probed(address netip.AddrPort) bool {
	found := false
	for _, name := range sortedKeys(e.state.Probes) {
		p := e.state.Probes[name]
		u, err := url.Parse(p.Target)
		if err != nil || u.Port() != strconv.Itoa(int(address.Port())) && (u.Port() != "" || address.Port() != 80) {
			continue
		}
		host, err := netip.ParseAddr(u.Hostname())
		if err != nil || host != address.Addr() && !(address.Addr().IsUnspecified() && e.nodeHas(host)) {
			continue
		}
		found = true
		e.view("probe", "request to "+p.Target, probeText(p), fact{probe, name, ""})
		e.say(probeSentence(p), fact{probe, name, ""})
	}
	return found
}

func probeText(p *eventpb.ProbeResult) string {
	if p.HttpCode != 0 {
		return fmt.Sprintf("HTTP %d after %s", p.HttpCode, seconds(p.Seconds))
	}
	return fmt.Sprintf("exit code %d after %s", p.ExitCode, seconds(p.Seconds))
}

func probeSentence(p *eventpb.ProbeResult) string {
	from := "the node"
	if p.Pod != "" {
		from = "the pod " + p.Pod
	}
	what := map[int32]string{7: "was refused", 28: "timed out", 56: "broke while the answer was received"}[p.ExitCode]
	switch {
	case p.HttpCode != 0:
		what = fmt.Sprintf("was answered with HTTP %d", p.HttpCode)
	case what == "":
		what = fmt.Sprintf("ended with exit code %d", p.ExitCode)
	}
	return fmt.Sprintf("A request from %s to %s %s after %s.", from, p.Target, what, seconds(p.Seconds))
}

func seconds(s float64) string { return fmt.Sprintf("%.3f ms", s*1000) }

// nodeHas says that an address is one of the node's.
func (e *Explanation) nodeHas(a netip.Addr) bool {
	for _, n := range e.state.Objects(eventpb.Kind_KIND_NODE) {
		if slices.Contains(n.GetNode().GetInternalIps(), a.String()) || slices.Contains(n.GetNode().GetExternalIps(), a.String()) {
			return true
		}
	}
	return a.IsLoopback()
}

// missing says which frontends the API wants and the map does not have.
func (s *service) missing(addresses map[netip.AddrPort]bool) {
	if s.object == nil {
		s.gone()
		return
	}
	svc := objectOf(eventpb.Kind_KIND_SERVICE, s.object)
	for _, a := range sortedAddresses(addresses) {
		kind := cilium.Services4
		if a.Addr().Is6() {
			kind = cilium.Services6
		}
		if s.object.GetService().GetType() == "ExternalName" || slices.ContainsFunc(s.frontends, func(f *frontend) bool { return f.head.Value.Frontend == a }) {
			continue
		}
		if !slices.Contains(s.object.GetService().GetClusterIps(), a.Addr().String()) && s.rowAt(a) == "" {
			continue // an address that the Service could have had: a node's of another family, or another node's
		}
		whole := s.wholeMaps(kind)
		if len(whole) == 0 {
			s.unknown("whether the map has the frontend "+a.String(), "bpfmap")
			continue
		}
		s.say(fmt.Sprintf("The map has no frontend %s: nothing translates a connection to it.", a), append(whole, svc)...)
		if key := s.rowAt(a); key != "" {
			s.say(fmt.Sprintf("The agent has the frontend %s, reconciled: %s.", a, s.state.Agent["frontend"][key].Reconciled), fact{agentRow, "frontend", key})
		}
	}
}

func (s *service) rowAt(a netip.AddrPort) string {
	for _, r := range s.rows {
		if at, ok := addressOf(r.Address); ok && at == a {
			return r.Key
		}
	}
	return ""
}

// gone says that a Service is left over in the agent or the map.
func (s *service) gone() {
	list := fact{listOf, eventpb.Kind_KIND_SERVICE.String(), ""}
	for _, f := range s.frontends {
		s.say(fmt.Sprintf("The API has no Service %s, and the map still has its frontend %s.", s.name, f.name()), append(f.facts(), list)...)
	}
	for _, r := range s.rows {
		s.say(fmt.Sprintf("The API has no Service %s, and the agent still has its frontend %s.", s.name, r.Address), list, fact{agentRow, "frontend", r.Key})
	}
}

// way says what makes the translation: the maps, and not rules of iptables.
func (s *service) way() {
	mode, ok := s.state.KubeProxyReplacement()
	if !ok {
		s.unknown("whether Cilium replaces kube-proxy", "agent: its status")
	}
	for _, text := range s.object.GetService().GetClusterIps() {
		n, known := s.state.RuleLines(text)
		switch {
		case !known:
			s.unknown("whether a rule of iptables has "+text, "host: the output of iptables-save")
		case n > 0:
			s.say(fmt.Sprintf("%s of iptables-save %s %s: something besides Cilium may translate it.", count(n, "line"), verb(n, "has", "have"), text), theRules)
		case ok:
			s.say(fmt.Sprintf("No line of iptables-save has %s: Cilium replaces kube-proxy (%s), so the frontend is an entry of a map and not a rule.", text, mode), theRules, theStatus)
		}
	}
	served := slices.ContainsFunc(s.frontends, func(f *frontend) bool { return len(f.slots) > 0 })
	if coverage, ok := s.state.SocketLBCoverage(); ok && coverage == "Full" && served {
		s.say("A pod's connect() to the frontend is rewritten in the socket (socket LB coverage: Full): its packets carry the backend's address, and getpeername() gives the frontend's.", theStatus)
	}
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
