package bpfmap

import (
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// partSize is about how many bytes of entries one event holds at most.
const partSize = 512 << 10

// packer puts what one poll found into events of at most partSize. Maps that were read together stand in one event
// where they fit.
type packer struct {
	seen   time.Time
	events []*eventpb.Event
	body   *eventpb.MapDeltas // of the last event
	room   int
}

func (p *packer) open() {
	p.body = &eventpb.MapDeltas{}
	e := events.New(p.body)
	e.SeenNs = p.seen.UnixNano()
	p.events = append(p.events, e)
	p.room = partSize
}

// fact adds a delta that holds no entries.
func (p *packer) fact(d *eventpb.MapDelta) {
	if p.body == nil {
		p.open()
	}
	p.body.Maps = append(p.body.Maps, d)
}

// entries adds what changed in a map; complete: c is the whole map.
func (p *packer) entries(t *table, c *change, complete bool) {
	upserts, deletes := c.upserts, c.deletes
	keySize, entrySize := t.cur.keys.size, t.cur.keys.size+t.cur.values.size
	var parts []*eventpb.MapDelta
	for first := true; first || len(upserts)+len(deletes) > 0; first = false {
		if p.body == nil || p.room < entrySize {
			p.open()
		}
		d := t.head()
		d.Complete = complete
		nd := min(len(deletes), p.room/keySize)
		d.Deletes = gather(nil, deletes[:nd], t.old.key)
		nu := min(len(upserts), (p.room-len(d.Deletes))/entrySize)
		if nu > 0 {
			d.Upserts = make([]byte, 0, nu*entrySize)
		}
		for _, i := range upserts[:nu] {
			d.Upserts = append(append(d.Upserts, t.cur.key(int(i))...), t.cur.value(int(i))...)
		}
		upserts, deletes = upserts[nu:], deletes[nd:]
		p.room -= len(d.Upserts) + len(d.Deletes)
		p.body.Maps = append(p.body.Maps, d)
		parts = append(parts, d)
	}
	if !complete && len(parts) == 1 {
		return
	}
	for i, d := range parts {
		d.Part, d.Parts = uint32(i+1), uint32(len(parts))
	}
}

func gather(to []byte, numbers []int32, key func(int) []byte) []byte {
	for _, i := range numbers {
		to = append(to, key(int(i))...)
	}
	return to
}

// gap adds a gap from one moment to now.
func (p *packer) gap(from time.Time, reason eventpb.GapReason, detail string) {
	e := events.New(&eventpb.Gap{FromNs: from.UnixNano(), ToNs: p.seen.UnixNano(), Reason: reason, Detail: detail})
	e.SeenNs = p.seen.UnixNano()
	p.events = append(p.events, e)
	p.body = nil // what follows stands after the gap
}
