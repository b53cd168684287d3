package bpfmap

import (
	"context"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// hung is a map whose batch lookups never come to an end.
type hung struct {
	*ebpf.Map
	calls int
	gives int // entries with each call
}

func (h *hung) BatchLookup(_ *ebpf.MapBatchCursor, _, _ any, _ *ebpf.BatchOptions) (int, error) {
	h.calls++
	return h.gives, nil
}

// TestHungBatchLookup: whichever way a batch walk does not end, it is given up and the map read from key to key
// (cilium/ebpf#1955).
func TestHungBatchLookup(t *testing.T) {
	n := newNode(t)
	m := n.Pin(backendName, ebpf.Hash, 4, 12, 64)
	for key := range 40 {
		put(t, m, key, []byte{11: byte(key)})
	}
	for _, tt := range []struct {
		what    string
		gives   int
		bound   int
		timeout time.Duration
		calls   int // at most
	}{
		{"no progress", 0, 1 << 20, time.Minute, (walkTries - 1) * 18},
		{"the same entries again and again", 1, 1000, time.Minute, (walkTries - 1) * 1001},
		{"too slow", 1, 1 << 30, time.Nanosecond, 1},
	} {
		h := &hung{Map: m, gives: tt.gives}
		w := newWalker(m)
		w.m, w.bound, w.timeout = h, tt.bound, tt.timeout
		if tt.timeout == time.Nanosecond {
			w.m = &patient{hung: h, w: w}
		}
		s := newSnapshot(4, 12, false)
		if err := w.read(context.Background(), s); err != nil {
			t.Errorf("%s: %v", tt.what, err)
		}
		got := map[string]string{}
		for i := range s.n {
			got[string(s.key(i))] = string(s.value(i))
		}
		if want := kernel(t, m); len(got) != len(want) || s.n != len(want) {
			t.Errorf("%s: read %d entries, %d keys; want %d", tt.what, s.n, len(got), len(want))
		}
		if h.calls == 0 || h.calls > tt.calls {
			t.Errorf("%s: %d batch lookups, want at most %d", tt.what, h.calls, tt.calls)
		}
	}
}

// patient gives the walk from key to key the time that the batch lookup had not.
type patient struct {
	*hung
	w *walker
}

func (p *patient) NextKey(key, next any) error {
	p.w.deadline = time.Now().Add(time.Minute)
	return p.Map.NextKey(key, next)
}

// TestMaglevMap: a map of maps gives which frontends have a table, and another number when a table is made anew.
func TestMaglevMap(t *testing.T) {
	const name = "cilium_lb4_maglev"
	n := newNode(t)
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4 * 251, MaxEntries: 1}
	outer, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.HashOfMaps, KeySize: 2, ValueSize: 4, MaxEntries: 1024, InnerMap: inner})
	if err != nil {
		t.Skipf("cannot make a map of maps: %v", err)
	}
	defer outer.Close()
	if err := outer.Pin(n.Path(name)); err != nil {
		t.Fatal(err)
	}
	table := func(frontend uint16) {
		t.Helper()
		m, err := ebpf.NewMap(inner)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := outer.Put([]byte{byte(frontend >> 8), byte(frontend)}, uint32(m.FD())); err != nil {
			t.Fatal(err)
		}
	}
	r := newReplica()
	l := n.lane(r)
	for frontend := range uint16(30) {
		table(frontend)
	}
	pollAll(t, l)
	r.equals(t, name, outer)
	before := r.maps[name]["\x00\x07"]
	table(7)
	r.deltas = nil
	pollAll(t, l)
	r.equals(t, name, outer)
	if len(r.deltas) != 1 || len(r.deltas[0].Upserts) != 6 || r.maps[name]["\x00\x07"] == before {
		t.Errorf("a new table told %v", r.deltas)
	}
	if err := outer.Delete([]byte{0, 7}); err != nil {
		t.Fatal(err)
	}
	pollAll(t, l)
	r.equals(t, name, outer)
}
