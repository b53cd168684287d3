package projections

import (
	"slices"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// cilium#45196, cilium#25154: programs use a map that is pinned no more.
func TestPinOfAnotherMap(t *testing.T) {
	const pin = "cilium_lb4_services_v2"
	replaced := func(st *story) uint32 {
		m := st.s.Maps[pin]
		old := m.MapID
		st.then("bpfmap", &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{{Map: pin, Type: m.Type, KeySize: m.KeySize, ValueSize: m.ValueSize, MaxEntries: m.MaxEntries, MapId: old + 5000}}})
		return old
	}
	t.Run("found and mended", func(t *testing.T) {
		st := realNode(t)
		old := replaced(st)
		st.pass(14)
		st.quiet("while the agent starts")
		st.pass(2)
		st.wantOpen("after the bound", "pin-unused "+pin)
		st.attach(func(a *eventpb.Attachments) { a.Attachments[0].MapIds = append(a.Attachments[0].MapIds, 99999) })
		st.wantOpen("while it is not known what the attached programs use", "pin-unused "+pin)
		st.attach(func(a *eventpb.Attachments) {
			a.Attachments[0].MapIds = nil
			for _, x := range a.Attachments {
				x.MapIds = slices.DeleteFunc(x.MapIds, func(id uint32) bool { return id == old })
			}
			for _, u := range a.UsedMaps {
				if u.Id == old {
					u.Id += 5000
				}
			}
		})
		st.quiet("when the programs were loaded anew")
	})
	t.Run("programs that are walked to late", func(t *testing.T) {
		st := realNode(t)
		st.attach(func(a *eventpb.Attachments) { a.Attachments[0].MapIds = append(a.Attachments[0].MapIds, 99999) })
		replaced(st)
		st.pass(30)
		st.quiet("after the bound")
	})
	t.Run("a map that no program uses", func(t *testing.T) {
		st := realNode(t)
		id := st.s.Maps[pin].MapID
		st.attach(func(a *eventpb.Attachments) {
			a.UsedMaps = slices.DeleteFunc(a.UsedMaps, func(u *eventpb.UsedMap) bool { return u.Id == id })
			for _, x := range a.Attachments {
				x.MapIds = slices.DeleteFunc(x.MapIds, func(used uint32) bool { return used == id })
			}
		})
		st.pass(30)
		st.quiet("after the bound")
	})
	t.Run("tail calls that cannot be followed", func(t *testing.T) {
		st := realNode(t)
		st.attach(func(a *eventpb.Attachments) { a.Unreadable = []string{"tail calls: operation not permitted"} })
		replaced(st)
		st.pass(30)
		st.quiet("after the bound")
	})
}
