package projections

import (
	"fmt"
	"time"
)

// slotWithoutBackend: the datapath that chooses the slot finds no backend and drops the connection.
var slotWithoutBackend = rule{
	name: "slot-without-backend", level: levelError, hold: 2 * time.Second, needs: []string{"bpfmap"},
	means: "connections for which this slot is chosen are dropped (Service backend not found); restart the agent if it does not mend it by itself",
	frontend: func(s *State, k frontendKey, f *Frontend) (found []problem) {
		if f == nil {
			return nil
		}
		for slot, id := range f.Slots {
			b := backendKey{k.v6(), id}
			if _, ok := s.LB.backends[b]; ok || slot > f.Count+f.QCount {
				continue
			}
			p := problem{subject: fmt.Sprintf("%s (%d)", k, slot), text: fmt.Sprintf("slot %d of %s names backend %d, which is not in the backends map", slot, k, id)}
			if g, ok := s.LB.goneBackend(b); ok {
				p.text += fmt.Sprintf("; it was %s", g.Address)
				p.events = []uint64{g.Seq}
			}
			found = append(found, p)
		}
		return found
	},
}
