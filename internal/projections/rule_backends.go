package projections

import (
	"fmt"
	"time"
)

// apiHold is how long map and EndpointSlices may disagree about a backend: the agent takes a change up within half a second and
// writes it within a second, also while much changes.
const apiHold = 5 * time.Second

// staleBackend: a backend stays in the map that the API does not have, or has as not ready.
var staleBackend = rule{
	name: "stale-backend", level: LevelError, hold: apiHold, needs: []string{"kube", "bpfmap"},
	means: "new connections go to an address where nobody answers, or somebody else does; see the agent's log and `cilium-dbg statedb frontends`, and restart the agent if it does not mend it by itself",
	frontend: func(s *State, k frontendKey, f *Frontend) (found []problem) {
		if f == nil || !f.Head {
			return nil
		}
		want, ok := s.wishes(k, f)
		if !ok {
			return nil
		}
		align(s.held(k, f), want, func(h *held, w *wish) {
			if h == nil || w != nil && w.slotted() {
				return
			}
			p := problem{subject: fmt.Sprintf("%s %s", k, h.at), text: fmt.Sprintf("slot %d of %s has %s (%s), ", h.slot, k, h.at, h.state)}
			name, _ := s.owningService(k)
			switch {
			case w != nil && w.state == wishFar:
				p.text += fmt.Sprintf("which is on another node, and the traffic policy of %s is Local", name)
			case w != nil:
				p.text += fmt.Sprintf("which is not ready in the EndpointSlices of %s", name)
			default:
				p.text += fmt.Sprintf("which no EndpointSlice of %s has", name) + elsewhere(want, h.at)
			}
			p.text += s.agentSays(k, f, h.at, true)
			found = append(found, p)
		})
		return found
	},
}

// missingBackend: the API has a backend ready that the map does not have.
var missingBackend = rule{
	name: "missing-backend", level: LevelError, hold: apiHold, needs: []string{"kube", "bpfmap"},
	means: "the backend gets no connections, and where it is the only one clients are refused; see the agent's log and `cilium-dbg statedb frontends`",
	frontend: func(s *State, k frontendKey, f *Frontend) (found []problem) {
		if f == nil || !f.Head {
			return nil
		}
		want, ok := s.wishes(k, f)
		if !ok {
			return nil
		}
		align(s.held(k, f), want, func(h *held, w *wish) {
			if h != nil || !w.must {
				return
			}
			name, _ := s.owningService(k)
			text := fmt.Sprintf("%s is ready in the EndpointSlices of %s", w.at, name)
			if w.from != "" {
				text += fmt.Sprintf(" (%s)", w.from)
			}
			text += fmt.Sprintf(", and no slot of %s has it", k)
			found = append(found, problem{subject: fmt.Sprintf("%s %s", k, w.at), text: text + s.agentSays(k, f, w.at, false)})
		})
		return found
	},
}

// elsewhere tells with which other port the API has a backend's address.
func elsewhere(want []wish, at l4) string {
	for i := range want {
		w := &want[i]
		if w.at.address.Addr() == at.address.Addr() && w.at != at && w.slotted() {
			return fmt.Sprintf(" (they have %s)", w.at)
		}
	}
	return ""
}

// backendState: agent, API and map have a backend and disagree about whether it takes connections.
var backendState = rule{
	name: "backend-state", level: LevelError, hold: apiHold, needs: []string{"bpfmap"},
	means: "a backend that could take new connections gets none, or one that cannot gets some; restart the agent if it does not mend it by itself",
	frontend: func(s *State, k frontendKey, f *Frontend) (found []problem) {
		if f == nil || !f.Head || len(f.Slots) == 0 {
			return nil
		}
		have := s.held(k, f)
		of := s.statesOf(k, f)
		for i := range have {
			h := &have[i]
			if text := of.differ(h, f); text != "" {
				found = append(found, problem{subject: fmt.Sprintf("%s %s", k, h.at), text: fmt.Sprintf("slot %d of %s has %s as %s, ", h.slot, k, h.at, h.stateIn(f)) + text})
			}
		}
		return found
	},
}
