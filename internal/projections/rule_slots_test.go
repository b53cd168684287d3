package projections

import "testing"

func TestSlotWithoutBackend(t *testing.T) {
	st := settled(t)
	b := lbBackend{address: "10.42.0.38:8080"}
	d := backendsDelta(false)
	d.Deletes = b.bytes()[:4]
	st.maps(d)
	gone := *stamp(st.s.SeenNs)
	st.wantOpen("in flight")
	st.wait(2)
	st.wantOpen("after the bound", "slot-without-backend "+webFrontend+" (2)")
	st.wantText("slot-without-backend", "slot 2 of 10.43.0.7:80/TCP names backend", "it was 10.42.0.38:8080 and went at "+gone)
	st.maps(backendsDelta(false, b.bytes()))
	st.wantOpen("when it is back")
}

// cilium#3905: slot 0 is the head. It counts the others, quarantined ones behind the rest.
func TestSlotCount(t *testing.T) {
	head := lbEntry{front: webIP + ":80"}
	slot := func(n uint16) []byte {
		e := head
		e.slot, e.backend = n, lbBackend{address: "10.42.0.9:8080"}.id()
		return e.bytes()
	}
	st := settled(t)
	d := servicesDelta(false, slot(2))
	d.Deletes = slot(1)[:12]
	st.maps(d)
	st.wantOpen("in flight")
	st.wait(2)
	st.wantOpen("with a hole", "slot-count "+webFrontend)
	st.wantText("slot-count", "slot 0 of 10.43.0.7:80/TCP counts 2 and 0 quarantined; missing: slot 1")
	st.maps(servicesDelta(false, slot(1), slot(3)))
	st.wantText("slot-count", "behind the count: slot 3")

	h := head
	h.count, h.qcount = 2, 1
	st.maps(servicesDelta(false, h.bytes()))
	st.wantOpen("when the third is a quarantined one")
	d = servicesDelta(false)
	d.Deletes = head.bytes()[:12]
	st.maps(d)
	st.wait(3)
	st.wantText("slot-count", "has no slot 0, and has slots 1, 2, 3")
	st.front(head, lbBackend{address: "10.42.0.9:8080"}, lbBackend{address: "10.42.0.38:8080"})
	st.wait(20)
	st.wantOpen("when all is whole")
}
