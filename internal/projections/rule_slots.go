package projections

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// slotWithoutBackend: the datapath that chooses the slot finds no backend and drops the connection.
var slotWithoutBackend = rule{
	name: "slot-without-backend", level: LevelError, hold: 2 * time.Second, needs: []string{"bpfmap"},
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
				p.text += fmt.Sprintf("; it was %s and went at %s", g.Address, timeText(g.GoneNs))
				p.events = []uint64{g.Seq}
			}
			found = append(found, p)
		}
		return found
	},
}

// slotCount: slot 0 tells the datapath from how many slots to choose.
var slotCount = rule{
	name: "slot-count", level: LevelError, hold: 2 * time.Second, needs: []string{"bpfmap"},
	means: "connections for which a slot that is missing is chosen are dropped, and backends in slots behind the count get none; restart the agent if it does not mend it by itself",
	frontend: func(s *State, k frontendKey, f *Frontend) []problem {
		if f == nil {
			return nil
		}
		if !f.Head {
			return []problem{{subject: k.String(), text: fmt.Sprintf("%s has no slot 0, and has %s", k, slotsText(slices.Collect(maps.Keys(f.Slots))))}}
		}
		var missing, beyond []uint16
		n := f.Count + f.QCount
		for slot := uint16(1); slot <= n; slot++ {
			if _, ok := f.Slots[slot]; !ok {
				missing = append(missing, slot)
			}
		}
		for slot, id := range f.Slots {
			if b, ok := s.LB.backends[backendKey{k.v6(), id}]; slot > n && !(ok && b.State == cilium.BackendTerminating) { // that one drains
				beyond = append(beyond, slot)
			}
		}
		if len(missing)+len(beyond) == 0 {
			return nil
		}
		text := fmt.Sprintf("slot 0 of %s counts %d and %d quarantined", k, f.Count, f.QCount)
		if len(missing) > 0 {
			text += "; missing: " + slotsText(missing)
		}
		if len(beyond) > 0 {
			text += "; behind the count: " + slotsText(beyond)
		}
		return []problem{{subject: k.String(), text: text}}
	},
}

// slotsText lists slots, as "slots 1, 3 and 12 more"; a map that lost much would make an endless list.
func slotsText(slots []uint16) string {
	const most = 8
	slices.Sort(slots)
	var texts []string
	for _, slot := range slots[:min(len(slots), most)] {
		texts = append(texts, strconv.Itoa(int(slot)))
	}
	text := "slot"
	if len(slots) > 1 {
		text = "slots"
	}
	text += " " + strings.Join(texts, ", ")
	if over := len(slots) - most; over > 0 {
		text += fmt.Sprintf(" and %d more", over)
	}
	return text
}
