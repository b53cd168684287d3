package projections

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// staleConntrack: what the datapath once sent to a backend that is gone it still looks for there.
var staleConntrack = rule{
	name: "stale-conntrack", level: LevelWarning, hold: apiHold, needs: []string{"bpfmap"},
	means: "the connection has lost its backend: with its next packet Cilium chooses another one, which answers a TCP connection it does not know with a reset, so the client must connect anew; the entry goes when it expires",
	backend: func(s *State, b backendKey) []problem {
		if s.LB.has(b) || b.id == 0 {
			return nil
		}
		n, first, last, fronts := 0, int64(0), int64(0), map[string]bool{}
		for _, m := range s.conntracks() {
			if m.v6() != b.v6 {
				continue
			}
			for key := range m.served[b.id] {
				v := m.Entries[key]
				if _, closing := cilium.CTServiceBackend(v.Bytes); closing {
					continue
				}
				if n++; n == 1 || v.SinceNs < first {
					first = v.SinceNs
				}
				last = max(last, v.SinceNs)
				if c, err := cilium.DecodeCTKey([]byte(key)); err == nil {
					fronts[c.Destination.String()+"/"+c.Proto.String()] = true
				}
			}
		}
		if n == 0 {
			return nil
		}
		p := problem{subject: "backend " + b.String()}
		p.text = fmt.Sprintf("%s to %s for backend %d, which is not in the backends map", entriesText(n, first, last), namesText(fronts), b.id)
		if g, ok := s.LB.goneBackend(b); ok {
			p.text += fmt.Sprintf("; it was %s/%s and went at %s", g.Address, g.Proto, timeText(g.GoneNs))
			p.events = []uint64{g.Seq}
		} else {
			p.text += " and was not since the recording began"
		}
		return []problem{p}
	},
}

// entriesText tells how many entries there are and when they were made; those of time 0 were there at the first look.
func entriesText(n int, first, last int64) string {
	var when string
	switch {
	case last == 0:
		when = "from before the recording"
	case first == 0:
		when = "the newest made at " + timeText(last)
	case first == last:
		when = "made at " + timeText(last)
	default:
		when = fmt.Sprintf("made from %s to %s", timeText(first), timeText(last))
	}
	if n == 1 {
		return fmt.Sprintf("1 conntrack entry (%s) leads connections", when)
	}
	return fmt.Sprintf("%d conntrack entries (%s) lead connections", n, when)
}

// namesText lists names ascending, the first three of many.
func namesText(set map[string]bool) string {
	return firstOf(slices.SortedFunc(maps.Keys(set), natural))
}

// firstOf lists the first three of many names.
func firstOf(names []string) string {
	if more := len(names) - 3; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), more)
	}
	return strings.Join(names, ", ")
}
