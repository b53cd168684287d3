package projections

import (
	"cmp"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// held is one backend in a slot of a frontend.
type held struct {
	at    l4
	slot  uint16
	id    uint32
	state cilium.BackendState
}

// held are the backends in the slots that slot 0 counts, by address and each once, the first slot of each. Backends from before
// Cilium told protocols apart have none: they count as of the frontend's.
func (s *State) held(k frontendKey, f *Frontend) []held {
	list := make([]held, 0, len(f.Slots))
	for slot, id := range f.Slots {
		if slot > f.Count+f.QCount {
			continue
		}
		if b, ok := s.LB.backends[backendKey{k.v6(), id}]; ok {
			list = append(list, held{l4{b.Address, ofFrontend(k, b.Proto)}, slot, id, b.State})
		}
	}
	slices.SortFunc(list, func(a, b held) int {
		return cmp.Or(a.at.address.Compare(b.at.address), cmp.Compare(a.at.proto, b.at.proto), cmp.Compare(a.slot, b.slot))
	})
	return slices.CompactFunc(list, func(a, b held) bool { return a.at == b.at })
}

// ofFrontend is a backend's protocol as it is compared with those of a frontend.
func ofFrontend(k frontendKey, p cilium.Proto) cilium.Proto {
	if k.proto == cilium.Any || p == cilium.Any {
		return k.proto
	}
	return p
}

// align walks what the map holds and what is wished for side by side; one of the two is nil where the other has no like.
func align(have []held, want []wish, each func(h *held, w *wish)) {
	i, j := 0, 0
	for i < len(have) || j < len(want) {
		c := 0
		switch {
		case i == len(have):
			c = 1
		case j == len(want):
			c = -1
		default:
			c = cmp.Or(have[i].at.address.Compare(want[j].at.address), cmp.Compare(have[i].at.proto, want[j].at.proto))
		}
		switch {
		case c < 0:
			each(&have[i], nil)
			i++
		case c > 0:
			each(nil, &want[j])
			j++
		default:
			each(&have[i], &want[j])
			i, j = i+1, j+1
		}
	}
}

func (b l4) String() string { return b.address.String() + "/" + b.proto.String() }
