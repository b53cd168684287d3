package projections

import (
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// states are what API and agent say of a frontend's backends; nil for what is not known, or not to be compared.
type states struct {
	api   map[l4]wishState
	agent map[l4]agentWish
}

func (s *State) statesOf(k frontendKey, f *Frontend) states {
	of := states{}
	if src := s.Sources["kube"]; src != nil && src.State == eventpb.SourceState_SOURCE_STATE_UP && !s.overridden(k) {
		if want, ok := s.wishes(k, f); ok {
			of.api = make(map[l4]wishState, len(want))
			for _, w := range want {
				if w.must {
					of.api[w.at] = w.state
				}
			}
		}
	}
	if row, ok := s.agentRowOf(k, f); ok && s.agentKnown() && row.reconciled == reconciledDone {
		list := row.backendsOf(k)
		of.agent = make(map[l4]agentWish, len(list))
		for _, w := range list {
			of.agent[w.at] = w
		}
	}
	return of
}

// overridden says that the Service has its endpoints ready whatever they are. Another Service may have the same ones terminating,
// and the map has one state of each.
func (s *State) overridden(k frontendKey) bool {
	name, ok := s.owningService(k)
	return ok && s.service(name.Namespace, name.Name).GetService().GetPublishNotReady()
}

// differ tells what agent or API say otherwise of a backend than the map; empty where they agree.
func (of states) differ(h *held, f *Frontend) string {
	inMap := h.stateIn(f)
	a, ok := of.agent[h.at]
	switch state, ready := of.api[h.at]; {
	case ready && state == wishActive && (inMap == cilium.BackendTerminating || inMap == cilium.BackendMaintenance):
		text := "and the EndpointSlices have it ready"
		if ok {
			text += "; the agent has it " + a.text()
		}
		return text
	case !ok:
	case inMap == cilium.BackendQuarantined && a.state == wishActive && !a.unhealthy:
		return "and the agent has it active"
	case inMap == cilium.BackendActive && (a.unhealthy || a.state == wishIdle):
		return "and the agent has it " + a.text()
	}
	return ""
}

// stateIn is the state in which a frontend uses a backend: the map of backends is shared by all frontends, and one whose health
// check fails for a Service is behind that one's count only.
func (h *held) stateIn(f *Frontend) cilium.BackendState {
	if h.slot > f.Count && h.state == cilium.BackendActive {
		return cilium.BackendQuarantined
	}
	return h.state
}

func (w agentWish) text() string {
	switch {
	case w.unhealthy:
		return "unhealthy"
	case w.state == wishLeaving:
		return "terminating"
	case w.state == wishIdle:
		return "neither active nor terminating"
	}
	return "active"
}
