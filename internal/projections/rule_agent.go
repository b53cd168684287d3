package projections

import (
	"cmp"
	"fmt"
	"time"
)

// agentAndMap: the agent says that it has written the map, and the map has other backends. What the API has otherwise too is told
// by the rules about backends.
var agentAndMap = rule{
	name: "agent-and-map", level: LevelError, hold: apiHold, needs: []string{"bpfmap", "agent"},
	means: "connections go by the map, not by what the agent lists; restart the agent, which then writes the map anew",
	frontend: func(s *State, k frontendKey, f *Frontend) (found []problem) {
		if f == nil || !f.Head || !s.agentKnown() {
			return nil
		}
		row, ok := s.agentRowOf(k, f)
		if !ok || row.reconciled != reconciledDone {
			return nil
		}
		list := row.backendsOf(k)
		rows := make([]wish, len(list))
		for i, w := range list {
			rows[i] = w.wish
		}
		told := s.toldByAPI(k, f)
		add := func(at l4, text string) {
			found = append(found, problem{subject: fmt.Sprintf("%s %s", k, at), text: text + row.progress()})
		}
		align(s.held(k, f), rows, func(h *held, w *wish) {
			switch {
			case w == nil && !told(h.at, true):
				add(h.at, fmt.Sprintf("slot %d of %s has %s (%s), which the agent has not", h.slot, k, h.at, h.state))
			case h == nil && w.must && !told(w.at, false):
				add(w.at, fmt.Sprintf("the agent has %s as a backend of %s, and no slot has it", w.at, k))
			}
		})
		return found
	},
}

// toldByAPI says whether the rules that compare the map with the API tell of a backend.
func (s *State) toldByAPI(k frontendKey, f *Frontend) func(at l4, held bool) bool {
	want, ok := s.wishes(k, f)
	if !ok || !s.judges(&staleBackend) {
		return func(l4, bool) bool { return false }
	}
	states := make(map[l4]wish, len(want))
	for _, w := range want {
		states[w.at] = w
	}
	return func(at l4, held bool) bool {
		w, ok := states[at]
		if held {
			return !ok || !w.slotted()
		}
		return ok && w.must
	}
}

// agentError: the agent cannot write the map.
var agentError = rule{
	name: "agent-error", level: LevelError, hold: 2 * time.Second, needs: []string{"agent"},
	means: "the map stays as it was, and connections go by that; a map that is full (argument list too long) needs a larger --bpf-lb-map-max",
	frontend: func(s *State, k frontendKey, _ *Frontend) []problem {
		row, ok := s.joins.agent[k]
		if !ok || row.reconciled != reconciledError {
			return nil
		}
		return []problem{{subject: k.String(), text: fmt.Sprintf("the agent cannot write %s of %s: %s", k, row.ServiceName, cmp.Or(row.Status.Error, "no reason given"))}}
	},
}

// agentPending: the agent has a change and does not write it.
var agentPending = rule{
	name: "agent-pending", level: LevelWarning, hold: 15 * time.Second, needs: []string{"agent"},
	means: "the map stays as it was, and connections go by that; the agent is overloaded or stuck: see `cilium-dbg status --verbose`",
	frontend: func(s *State, k frontendKey, _ *Frontend) []problem {
		row, ok := s.joins.agent[k]
		if !ok || row.reconciled != reconciledPending {
			return nil
		}
		return []problem{{subject: k.String(), text: fmt.Sprintf("the agent has not written %s of %s yet (Pending)", k, row.ServiceName)}}
	},
}
