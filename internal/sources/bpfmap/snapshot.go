package bpfmap

import (
	"bytes"
	"reflect"
	"unsafe"
)

const (
	// batch is how many entries one call asks the kernel for: enough to make calls rare, few enough that one call
	// takes about a millisecond.
	batch = 8192
	// minFree is how many free places a call needs at least: more than the longest chain of a hash map.
	minFree = 256
	// shrinkAbove is the capacity from which a snapshot that got almost empty gives its memory back.
	shrinkAbove = 1 << 16
)

// snapshot is one read of a map: the entries in the order of the walk.
type snapshot struct {
	keys, values column
	shown        []uint32 // per entry: the lifetime that was emitted last; nil for maps whose entries do not expire
	n            int
}

func newSnapshot(keySize, valueSize int, expires bool) *snapshot {
	s := &snapshot{keys: column{size: keySize}, values: column{size: valueSize}}
	if expires {
		s.shown = []uint32{}
	}
	return s
}

func (s *snapshot) key(i int) []byte   { return s.keys.at(i) }
func (s *snapshot) value(i int) []byte { return s.values.at(i) }

// reset empties the snapshot and keeps its memory, unless nearly all of it was unused.
func (s *snapshot) reset() {
	if s.keys.cap > shrinkAbove && s.n < s.keys.cap/16 {
		s.keys.resize(0, 0)
		s.values.resize(0, 0)
	}
	s.n = 0
}

// reserve makes room for at least free more entries.
func (s *snapshot) reserve(free int) {
	if s.n+free <= s.keys.cap {
		return
	}
	c := max(2*s.keys.cap, s.n+free)
	s.keys.resize(s.n, c)
	s.values.resize(s.n, c)
}

// track sizes shown to the entries that were read.
func (s *snapshot) track() {
	if s.shown == nil {
		return
	}
	if cap(s.shown) < s.n {
		s.shown = make([]uint32, s.n, s.keys.cap)
	}
	s.shown = s.shown[:s.n]
}

// sameBytes says that both hold the same entries in the same order.
func (s *snapshot) sameBytes(o *snapshot) bool {
	return s.sameKeys(o) && bytes.Equal(s.values.flat[:s.n*s.values.size], o.values.flat[:o.n*o.values.size])
}

// sameKeys says that both hold the same keys in the same order.
func (s *snapshot) sameKeys(o *snapshot) bool {
	return s.n == o.n && bytes.Equal(s.keys.flat[:s.n*s.keys.size], o.keys.flat[:o.n*o.keys.size])
}

// column is an array of cap elements of size bytes each, seen in two ways: as the slice of arrays that batch lookups
// take, and as bytes.
type column struct {
	size  int
	cap   int
	typed reflect.Value
	flat  []byte
}

func (c *column) at(i int) []byte { return c.flat[i*c.size : (i+1)*c.size : (i+1)*c.size] }

// part is elements i … j as a [][size]byte.
func (c *column) part(i, j int) any { return c.typed.Slice(i, j).Interface() }

// resize gives the column room for cap elements and keeps the first n.
func (c *column) resize(n, capacity int) {
	element := reflect.ArrayOf(c.size, reflect.TypeFor[byte]())
	typed := reflect.MakeSlice(reflect.SliceOf(element), capacity, capacity)
	flat := unsafe.Slice((*byte)(typed.UnsafePointer()), capacity*c.size)
	copy(flat, c.flat[:n*c.size])
	c.typed, c.flat, c.cap = typed, flat, capacity
}
