package bpfmap

import (
	"bytes"
	"hash/maphash"
)

// index finds entries of a snapshot by key: open addressing over entry numbers, used again for each poll.
type index struct {
	seed  maphash.Seed
	slots []int32 // entry number + 1; 0 is free
	of    *snapshot
}

// reset makes the index empty, with room for n entries of s.
func (x *index) reset(s *snapshot, n int) {
	if x.of == nil {
		x.seed = maphash.MakeSeed()
	}
	size := 16
	for size < 2*n {
		size *= 2
	}
	if cap(x.slots) < size {
		x.slots = make([]int32, size)
	} else {
		x.slots = x.slots[:size]
		clear(x.slots)
	}
	x.of = s
}

// place is the slot that holds key, or the free one where it belongs.
func (x *index) place(key []byte) *int32 {
	i := maphash.Bytes(x.seed, key)
	for {
		slot := &x.slots[i&uint64(len(x.slots)-1)]
		if *slot == 0 || bytes.Equal(x.of.key(int(*slot-1)), key) {
			return slot
		}
		i++
	}
}

// add enters entry i and says whether its key is new.
func (x *index) add(i int) bool {
	slot := x.place(x.of.key(i))
	if *slot != 0 {
		return false
	}
	*slot = int32(i) + 1
	return true
}

// find is key's entry, -1 where there is none.
func (x *index) find(key []byte) int { return int(*x.place(key)) - 1 }
