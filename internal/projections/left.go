package projections

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// leftSlot is a backend that left the slots of a Service: packets that were sent to it before are seen after it.
type leftSlot struct {
	at   l4
	path string // the Service, or the pod with a hostPort
	ns   int64
}

// maxLeft bounds how many are remembered, for dropQuiet; the oldest are forgotten.
const maxLeft = 4096

// vacated is a backend that left the last of its slots in a frontend, in the event that is being folded.
type vacated struct {
	front frontendKey
	back  backendKey
	at    l4
}

func (v vacated) compare(o vacated) int {
	return cmp.Or(v.front.compare(o.front), v.back.compare(o.back))
}

// noteLeft remembers whose slots the event's vacated backends were in. One that was only moved to another slot has not left.
func (s *State) noteLeft() {
	if len(s.left) > 0 && s.SeenNs-s.left[0].ns >= int64(dropQuiet) {
		s.left = slices.DeleteFunc(s.left, func(l leftSlot) bool { return s.SeenNs-l.ns >= int64(dropQuiet) })
	}
	slices.SortFunc(s.LB.vacated, vacated.compare) // a dump's entries have no order
	for _, v := range s.LB.vacated[max(0, len(s.LB.vacated)-maxLeft):] {
		if s.LB.users[v.back][v.front] > 0 {
			continue
		}
		o, ok := s.owner(v.front)
		if !ok {
			o, ok = s.owners[v.front]
		}
		if l := (leftSlot{v.at, o.path(), s.SeenNs}); ok && !slices.Contains(s.left, l) {
			s.left = append(s.left, l)
		}
	}
	s.LB.vacated = s.LB.vacated[:0]
	if over := len(s.left) - maxLeft; over > 0 {
		s.left = slices.Delete(s.left, 0, over)
	}
}

func (s *State) leftMessages() []*eventpb.LeftSlotKnown {
	var list []*eventpb.LeftSlotKnown
	for _, l := range s.left {
		list = append(list, &eventpb.LeftSlotKnown{Address: l.at.address.String(), Protocol: uint32(l.at.proto), Path: l.path, LeftNs: l.ns})
	}
	return list
}

func leftFrom(list []*eventpb.LeftSlotKnown) ([]leftSlot, error) {
	var left []leftSlot
	for _, m := range list {
		a, err := netip.ParseAddrPort(m.Address)
		if err != nil {
			return nil, fmt.Errorf("backend that left its slots: %w", err)
		}
		left = append(left, leftSlot{l4{a, cilium.Proto(m.Protocol)}, m.Path, m.LeftNs})
	}
	return left, nil
}
