package bpfmap

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// keyOf numbers the keys of a map: of an LPM trie, whole addresses.
func keyOf(m *ebpf.Map, n int) []byte {
	if m.KeySize() == 2 {
		return binary.BigEndian.AppendUint16(nil, uint16(n))
	}
	key := make([]byte, m.KeySize())
	at := 0
	if m.Type() == ebpf.LPMTrie {
		binary.LittleEndian.PutUint32(key, (m.KeySize()-4)*8)
		at = 4
	}
	binary.BigEndian.PutUint32(key[at:], uint32(n)*2654435761)
	return key
}

func put(t testing.TB, m *ebpf.Map, n int, value []byte) {
	t.Helper()
	if err := m.Put(keyOf(m, n), value); err != nil {
		t.Fatal(err)
	}
}

var mapTypes = []struct {
	name       string
	typ        ebpf.MapType
	key, value uint32
}{
	{backendName, ebpf.Hash, 4, 12},
	{ctName, ebpf.LRUHash, 14, 56},
	{"cilium_policy_v3_00113", ebpf.LPMTrie, 12, 12},
	{"cilium_lxc", ebpf.Hash, 20, 48},
	{"cilium_snat_v4_external", ebpf.LRUHash, 14, 40},
}

// TestPollsFollowTheMap: whatever comes, changes and goes between polls, readers know what the map holds.
func TestPollsFollowTheMap(t *testing.T) {
	for _, tt := range mapTypes {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			m := n.Pin(tt.name, tt.typ, tt.key, tt.value, 8192)
			r := newReplica()
			l := n.lane(r)
			rnd := rand.New(rand.NewPCG(1, uint64(tt.key)))
			value := make([]byte, tt.value)
			for round := range 60 {
				for range rnd.IntN([]int{1, 20, 600}[round%3] + 1) {
					if key := rnd.IntN(800); rnd.IntN(3) == 0 {
						_ = m.Delete(keyOf(m, key))
					} else {
						binary.LittleEndian.PutUint32(value, rnd.Uint32N(3))
						put(t, m, key, value)
					}
				}
				if round == 40 { // the last key goes too
					for key := range 800 {
						_ = m.Delete(keyOf(m, key))
					}
				}
				pollAll(t, l)
				r.equals(t, tt.name, m)
			}
			before := len(r.events)
			pollAll(t, l)
			if len(r.events) != before {
				t.Errorf("a poll of an unchanged map told %v", r.events[before:])
			}
			if len(r.gaps) != 0 {
				t.Errorf("gaps: %v", r.gaps)
			}
		})
	}
}

// TestPollsAmidDeletes: entries that stay are never told as gone while others come and go during the walk, and the
// walk ends (cilium/ebpf#9, #11, #233, #1955; cilium#13905, #3867).
func TestPollsAmidDeletes(t *testing.T) {
	const stay, move = 500, 500
	for _, tt := range mapTypes {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			m := n.Pin(tt.name, tt.typ, tt.key, tt.value, 8192)
			value := make([]byte, tt.value)
			for key := range stay {
				put(t, m, key, value)
			}
			r := newReplica()
			missed := 0
			r.onEvent = func(r *replica) {
				for key := range stay {
					if _, ok := r.maps[tt.name][string(keyOf(m, key))]; !ok && r.maps[tt.name] != nil {
						missed++
					}
				}
			}
			l := n.lane(r)
			pollAll(t, l)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				rnd := rand.New(rand.NewPCG(2, 3))
				for {
					select {
					case <-stop:
						return
					default:
					}
					if key := stay + rnd.IntN(move); rnd.IntN(2) == 0 {
						_ = m.Delete(keyOf(m, key))
					} else {
						_ = m.Put(keyOf(m, key), value)
					}
				}
			}()
			for range 100 {
				pollAll(t, l)
			}
			close(stop)
			<-stopped
			pollAll(t, l)
			r.equals(t, tt.name, m)
			if missed > 0 {
				t.Errorf("%d times an entry that stayed was missing", missed)
			}
			for _, g := range r.gaps {
				if g.Reason != eventpb.GapReason_GAP_REASON_LATE {
					t.Errorf("gap %v", g)
				}
			}
		})
	}
}

// TestKeyWalkAmidDeletes does the same by keys, as on kernels without batch lookups, where a key that goes sends the
// walk back to its start.
func TestKeyWalkAmidDeletes(t *testing.T) {
	n := newNode(t)
	m := n.Pin(backendName, ebpf.Hash, 4, 12, 8192)
	for key := range 300 {
		put(t, m, key, make([]byte, 12))
	}
	w := newWalker(m)
	w.noBatch = true
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = m.Put(keyOf(m, 300+i%100), make([]byte, 12))
				_ = m.Delete(keyOf(m, 300+(i+50)%100))
			}
		}
	}()
	s := newSnapshot(4, 12, false)
	for range 50 {
		err := w.read(context.Background(), s)
		if isIncomplete(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for i := range s.n {
			there[string(s.key(i))] = true
		}
		for key := range 300 {
			if !there[string(keyOf(m, key))] {
				t.Fatalf("a walk that was called whole missed key %d", key)
			}
		}
	}
	close(stop)
	<-stopped
}

// TestIncompleteWalkIsAGap: nothing is told as gone after a walk that was cut short.
func TestIncompleteWalkIsAGap(t *testing.T) {
	n := newNode(t)
	m := n.Pin(backendName, ebpf.Hash, 4, 12, 64)
	put(t, m, 1, make([]byte, 12))
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	// A walker whose map is another, far larger one, in a hurry: it runs into its bound.
	table := l.tables[backendName]
	big := n.Pin("other", ebpf.Hash, 4, 12, 1<<16)
	for key := range 30000 {
		put(t, big, key, make([]byte, 12))
	}
	table.walker.bound = 10
	table.walker.m = big
	pollAll(t, l)
	r.equals(t, backendName, m)
	if len(r.gaps) != 1 || r.gaps[0].Reason != eventpb.GapReason_GAP_REASON_LATE {
		t.Fatalf("gaps %v", r.gaps)
	}
	// Once it can be read again, the gap is closed and what changed is told.
	table.walker = newWalker(table.m)
	put(t, m, 2, make([]byte, 12))
	pollAll(t, l)
	r.equals(t, backendName, m)
	if len(r.gaps) != 2 || r.gaps[1].FromNs != r.gaps[0].ToNs {
		t.Errorf("gaps %v", r.gaps)
	}
}

func TestLargeDumpComesInParts(t *testing.T) {
	const entries = 20000 // of 70 bytes: 1.4 MB
	n := newNode(t)
	m := n.Pin(ctName, ebpf.LRUHash, 14, 56, 100000)
	for key := range entries {
		put(t, m, key, make([]byte, 56))
	}
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	r.equals(t, ctName, m)
	var parts []string
	for _, d := range r.deltas {
		if d.Map == ctName {
			parts = append(parts, fmt.Sprint(d.Part, "/", d.Parts, d.Complete))
		}
	}
	if want := "[1/3 true 2/3 true 3/3 true]"; fmt.Sprint(parts) != want {
		t.Errorf("parts %v, want %s", parts, want)
	}
	// A change of everything is not a dump, and is as large.
	for key := range entries {
		put(t, m, key, append([]byte{1}, make([]byte, 55)...))
	}
	r.deltas = nil
	pollAll(t, l)
	r.equals(t, ctName, m)
	if len(r.deltas) != 3 || r.deltas[0].Complete {
		t.Errorf("%d deltas", len(r.deltas))
	}
}

// TestOnlyTheMeaningCounts: lifetimes and counters of a CT entry are no change, its flags are; and a live entry is
// told again before readers must take it for expired.
func TestOnlyTheMeaningCounts(t *testing.T) {
	n := newNode(t)
	m := n.Pin(ctName, ebpf.LRUHash, 14, 56, 64)
	r := newReplica()
	l := n.lane(r)
	now := uint32(100)
	l.ktime = func() uint32 { return now }
	value := make([]byte, 56)
	step := func(lifetime uint32, change func()) int {
		binary.LittleEndian.PutUint32(value[32:], lifetime)
		change()
		put(t, m, 1, value)
		r.deltas = nil
		pollAll(t, l)
		return len(r.deltas)
	}
	step(110, func() {})
	for _, tt := range []struct {
		what     string
		now      uint32
		lifetime uint32
		change   func()
		told     int
	}{
		{"packets and bytes", 101, 110, func() { value[16]++; value[24]++ }, 0},
		{"lifetime and reports", 102, 120, func() { value[48]++; value[52]++ }, 0},
		{"more lifetime before the told one passed", 109, 170, func() {}, 0},
		{"more lifetime after it passed", 110, 170, func() {}, 1},
		{"the same again", 111, 171, func() {}, 0},
		{"a flag", 112, 180, func() { value[36] |= 1 }, 1},
		{"expired and not renewed", 300, 180, func() {}, 0},
		{"renewed", 301, 400, func() {}, 1},
	} {
		now = tt.now
		if got := step(tt.lifetime, tt.change); got != tt.told {
			t.Errorf("%s: told %d times, want %d", tt.what, got, tt.told)
		}
	}
}

func TestMapsAreOpenedReadOnly(t *testing.T) {
	n := newNode(t)
	m := n.Pin(backendName, ebpf.Hash, 4, 12, 64)
	put(t, m, 1, make([]byte, 12))
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	mine := l.tables[backendName].m
	if err := mine.Put(keyOf(m, 2), make([]byte, 12)); !isForbidden(err) {
		t.Errorf("a write through the recorder's map: %v", err)
	}
	if err := mine.Delete(keyOf(m, 1)); !isForbidden(err) {
		t.Errorf("a delete through the recorder's map: %v", err)
	}
	r.equals(t, backendName, m)
}

func TestSchedule(t *testing.T) {
	start := time.Unix(1000, 0)
	s := schedule{pace: pace{min: 50 * time.Millisecond, max: 250 * time.Millisecond, factor: 100}}
	for range 20 {
		s.done(start, 100*time.Microsecond, true)
	}
	if got := s.due.Sub(start); got != 50*time.Millisecond {
		t.Errorf("cheap: %s", got)
	}
	s.press(start.Add(time.Millisecond))
	if got := s.due.Sub(start); got != 5*time.Millisecond {
		t.Errorf("pressed at once: %s", got)
	}
	s.done(start, 100*time.Microsecond, true)
	s.press(start.Add(20 * time.Millisecond))
	if got := s.due.Sub(start); got != 20*time.Millisecond {
		t.Errorf("pressed later: %s", got)
	}
	for range 20 {
		s.done(start, 20*time.Millisecond, true)
	}
	if got := s.due.Sub(start); got != 250*time.Millisecond {
		t.Errorf("dear: %s", got)
	}
	if _, late := s.late(start.Add(time.Second)); late {
		t.Error("a second is not late yet")
	}
	if since, late := s.late(start.Add(2 * time.Second)); !late || !since.Equal(start) {
		t.Errorf("late since %s, %v", since, late)
	}
}

// TestQuietMaps: a map that sees no connections is left alone more and more, until it sees one.
func TestQuietMaps(t *testing.T) {
	start := time.Unix(1000, 0)
	s := schedule{pace: connectionPace}
	var got []time.Duration
	for i := range 14 {
		s.done(start, 100*time.Microsecond, i == 0 || i == 12)
		got = append(got, s.due.Sub(start)/time.Second)
	}
	if want := []time.Duration{1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("next poll after %d seconds, want %d", got, want)
	}
}

// TestConnectionsAreReadWhenTold: the first sign of a connection after a calm is answered within 100 ms, those that
// follow on each other twice a second, and every two seconds in a map that sees none.
func TestConnectionsAreReadWhenTold(t *testing.T) {
	start := time.Unix(1000, 0)
	s := schedule{pace: connectionPace}
	s.done(start, 100*time.Microsecond, true)
	poll := func(pressedAt time.Duration, changed bool) time.Duration {
		s.press(start.Add(pressedAt))
		s.press(start.Add(pressedAt + time.Millisecond)) // as another connection does
		at := s.due.Sub(start)
		s.done(s.due, 100*time.Microsecond, changed)
		return at
	}
	ms := time.Millisecond
	for _, tt := range []struct{ pressed, want time.Duration }{
		{20 * ms, 100 * ms},    // soon after a poll that nobody asked for
		{150 * ms, 600 * ms},   // and again
		{650 * ms, 1100 * ms},  //
		{1700 * ms, 1700 * ms}, // after a calm
	} {
		if got := poll(tt.pressed, true); got != tt.want {
			t.Errorf("pressed at %v: polled at %v, want %v", tt.pressed, got, tt.want)
		}
	}
	for range 9 { // nothing comes
		s.done(s.due, 100*time.Microsecond, false)
	}
	at := s.due.Sub(start) - 7*time.Second
	if got := poll(at, false); got != at {
		t.Errorf("a quiet map, pressed at %v: polled at %v", at, got)
	}
	if got := poll(at+100*ms, false); got != at+2*time.Second {
		t.Errorf("a quiet map, pressed again: polled %v later, want 2 s", got-at)
	}
}

// TestDearMapsAreReadSeldom: a map of many entries takes a twentieth of a core at most, while no trigger asks for more.
func TestDearMapsAreReadSeldom(t *testing.T) {
	start := time.Unix(1000, 0)
	s := schedule{pace: connectionPace}
	for range 20 {
		s.done(start, 100*time.Millisecond, true)
	}
	if got := s.due.Sub(start).Round(time.Millisecond); got != 2*time.Second {
		t.Errorf("polled every %v", got)
	}
	s.press(start.Add(time.Millisecond))
	if got := s.due.Sub(start).Round(time.Millisecond); got != 1500*time.Millisecond {
		t.Errorf("pressed: polled after %v", got)
	}
}

// TestFollowedServices: while their changes are told, services are polled seldom, and at once when one is told.
func TestFollowedServices(t *testing.T) {
	n := newNode(t)
	n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	l := n.lane(newReplica())
	followed := true
	l.followed = func() bool { return followed }
	pollAll(t, l)
	g := l.groups[0]
	if d := g.due.Sub(g.last); d < followedEvery {
		t.Errorf("followed: next poll after %v", d)
	}
	l.press(time.Now())
	if d := g.due.Sub(g.last); d > 50*time.Millisecond {
		t.Errorf("told: next poll after %v", d)
	}
	followed = false
	pollAll(t, l)
	if d := g.due.Sub(g.last); d > 250*time.Millisecond {
		t.Errorf("not followed any more: next poll after %v", d)
	}
}

// TestLatePollIsAGap: when something held the recorder up, readers learn since when nobody looked.
func TestLatePollIsAGap(t *testing.T) {
	n := newNode(t)
	n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	g := l.groups[0]
	past := time.Now().Add(-time.Minute)
	g.last, g.due = past, past.Add(g.interval())
	if err := l.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.gaps) != 1 || r.gaps[0].FromNs != past.UnixNano() || r.gaps[0].Reason != eventpb.GapReason_GAP_REASON_LATE {
		t.Errorf("gaps %v", r.gaps)
	}
}
