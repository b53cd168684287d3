package bpfmap

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// window is how far the two sides of a comparison look ahead for each other when they are out of step. An entry that
// came or went moves the rest of its bucket only, and buckets hold one or two.
const window = 8

// change is what a poll of one map found: numbers of entries, which stay true until the next poll.
type change struct {
	upserts []int32 // of the new snapshot
	deletes []int32 // of the old one
}

func (c *change) empty() bool { return len(c.upserts) == 0 && len(c.deletes) == 0 }

// differ compares two reads of one map. It keeps its memory for the next time.
type differ struct {
	mask     mask
	lifetime int // offset in the value; 0 without
	change
	lonelyOld, lonelyNew []int32 // entries that met no partner in step, ascending
	met                  []bool  // per lonelyOld: its partner is in lonelyNew
	index                index
}

// compare finds what turned old into cur and keeps, in cur.shown, the lifetimes that readers know. now is the time on
// the map's own clock.
//
// An entry whose value changed in volatile bytes only is no change, with one exception: when the lifetime that readers
// know has passed while the map's has moved on, they would take a live entry for expired, so it is told again.
func (d *differ) compare(old, cur *snapshot, now uint32) *change {
	d.upserts, d.deletes = d.upserts[:0], d.deletes[:0]
	d.lonelyOld, d.lonelyNew = d.lonelyOld[:0], d.lonelyNew[:0]
	cur.track()
	i, j := 0, 0
	for i < cur.n && j < old.n {
		if bytes.Equal(cur.key(i), old.key(j)) {
			d.pair(old, cur, j, i, now)
			i, j = i+1, j+1
			continue
		}
		skipOld, skipNew := resync(old, cur, j, i)
		for range skipOld {
			d.lonelyOld = append(d.lonelyOld, int32(j))
			j++
		}
		for range skipNew {
			d.lonelyNew = append(d.lonelyNew, int32(i))
			i++
		}
	}
	for ; j < old.n; j++ {
		d.lonelyOld = append(d.lonelyOld, int32(j))
	}
	for ; i < cur.n; i++ {
		d.lonelyNew = append(d.lonelyNew, int32(i))
	}
	d.matchLonely(old, cur, now)
	return &d.change
}

// resync says how many entries of each side have no partner here. At least one is skipped.
func resync(old, cur *snapshot, j, i int) (skipOld, skipNew int) {
	for ahead := 1; ahead < window; ahead++ {
		if j+ahead < old.n && bytes.Equal(cur.key(i), old.key(j+ahead)) {
			return ahead, 0
		}
		if i+ahead < cur.n && bytes.Equal(cur.key(i+ahead), old.key(j)) {
			return 0, ahead
		}
	}
	return 1, 1
}

// pair compares entry j of old with entry i of cur, which have the same key.
func (d *differ) pair(old, cur *snapshot, j, i int, now uint32) {
	value := cur.value(i)
	if !d.mask.same(old.value(j), value) {
		d.upsert(cur, i)
		return
	}
	if d.lifetime == 0 {
		return
	}
	shown := old.shown[j]
	if shown <= now && binary.LittleEndian.Uint32(value[d.lifetime:]) > shown {
		d.upsert(cur, i)
		return
	}
	cur.shown[i] = shown
}

func (d *differ) upsert(cur *snapshot, i int) {
	d.upserts = append(d.upserts, int32(i))
	if d.lifetime != 0 {
		cur.shown[i] = binary.LittleEndian.Uint32(cur.value(i)[d.lifetime:])
	}
}

// matchLonely pairs the entries that only changed their place and tells the others as new or gone.
func (d *differ) matchLonely(old, cur *snapshot, now uint32) {
	if len(d.lonelyOld) == 0 {
		for _, i := range d.lonelyNew {
			d.upsert(cur, int(i))
		}
		return
	}
	d.index.reset(old, len(d.lonelyOld))
	d.met = append(d.met[:0], make([]bool, len(d.lonelyOld))...)
	for _, j := range d.lonelyOld {
		d.index.add(int(j))
	}
	for _, i := range d.lonelyNew {
		j := d.index.find(cur.key(int(i)))
		if j < 0 {
			d.upsert(cur, int(i))
			continue
		}
		d.pair(old, cur, j, int(i), now)
		k, _ := slices.BinarySearch(d.lonelyOld, int32(j))
		d.met[k] = true
	}
	for k, j := range d.lonelyOld {
		if !d.met[k] {
			d.deletes = append(d.deletes, j)
		}
	}
}

// all makes every entry of cur an upsert: a complete dump.
func (d *differ) all(cur *snapshot) *change {
	d.upserts, d.deletes = d.upserts[:0], d.deletes[:0]
	cur.track()
	for i := range cur.n {
		d.upsert(cur, i)
	}
	return &d.change
}
