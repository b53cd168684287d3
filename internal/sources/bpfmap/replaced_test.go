package bpfmap

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// TestAgentMakesMapsAnew: whatever an agent that starts with another configuration or version does to a map's pin,
// readers learn of it once, with the whole of what is there now.
func TestAgentMakesMapsAnew(t *testing.T) {
	const policy2, policy3 = "cilium_policy_v2_00113", "cilium_policy_v3_00113"
	for _, tt := range []struct {
		what  string
		old   string
		name  string
		value uint32
		room  uint32
		told  []string
		gap   bool
	}{
		{"the same again", policy2, policy2, 24, 64, []string{policy2 + " complete 1"}, true},
		{"more room", policy2, policy2, 24, 128, []string{policy2 + " complete 1"}, true},
		{"another layout under the same name", policy2, policy2, 8, 64, []string{policy2 + " complete 1"}, true},
		{"a layout that is not known", policy2, policy2, 16, 64, []string{policy2 + " unsupported"}, true},
		{"another version", policy2, policy3, 12, 64, []string{policy2 + " absent", policy3 + " complete 1"}, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			n := newNode(t)
			old := n.Pin(tt.old, ebpf.LPMTrie, 12, 24, 64)
			for key := range 20 {
				put(t, old, key, make([]byte, 24))
			}
			r := newReplica()
			l := n.lane(r)
			pollAll(t, l)
			r.deltas, r.gaps = nil, nil
			n.Unpin(tt.old)
			anew := n.Pin(tt.name, ebpf.LPMTrie, 12, tt.value, tt.room)
			put(t, anew, 1000, make([]byte, tt.value))
			put(t, old, 21, make([]byte, 24)) // as what still holds the old map may
			pollAll(t, l)
			pollAll(t, l)
			var told []string
			for _, d := range r.deltas {
				told = append(told, d.Map+" "+summary(d))
			}
			if diff := cmp.Diff(tt.told, told); diff != "" {
				t.Errorf("(-want +told):\n%s", diff)
			}
			if gap := len(r.gaps) == 1 && r.gaps[0].Reason == eventpb.GapReason_GAP_REASON_REPLACED; gap != tt.gap || len(r.gaps) > 1 {
				t.Errorf("gaps %v", r.gaps)
			}
			if last := r.deltas[len(r.deltas)-1]; last.Complete {
				r.equals(t, tt.name, anew)
				if last.MaxEntries != tt.room {
					t.Errorf("room for %d, want %d", last.MaxEntries, tt.room)
				}
			}
		})
	}
}

func summary(d *eventpb.MapDelta) string {
	switch {
	case d.Absent:
		return "absent"
	case d.Unsupported:
		return "unsupported"
	case d.Complete:
		return fmt.Sprint("complete ", len(d.Upserts)/int(d.KeySize+d.ValueSize))
	}
	return fmt.Sprintf("%d bytes of upserts, %d of deletes", len(d.Upserts), len(d.Deletes))
}

// TestReplacedAmidWalks: a map that is replaced while it is walked is read to its end, through the descriptor that is
// open, and then the new one; never is a mixture of both told, nor a delete.
func TestReplacedAmidWalks(t *testing.T) {
	const entries, times = 20000, 15
	n := newNode(t)
	pin := func(generation byte) *ebpf.Map {
		m := n.Pin(ctName, ebpf.Hash, 14, 56, 1<<16)
		keys, values := make([][14]byte, entries), make([][56]byte, entries)
		for i := range keys {
			copy(keys[i][:], keyOf(m, i))
			values[i][0] = generation
		}
		if _, err := m.BatchUpdate(keys, values, nil); err != nil {
			t.Error(err)
		}
		return m
	}
	pin(0)
	r := newReplica()
	r.onEvent = func(r *replica) {
		seen := map[byte]int{}
		for _, value := range r.maps[ctName] {
			seen[value[0]]++
		}
		if len(seen) > 1 {
			r.problem("a map of several generations: %v", seen)
		}
	}
	l := n.lane(r)
	pollAll(t, l)
	done := make(chan *ebpf.Map)
	go func() {
		var last *ebpf.Map
		for generation := range times {
			last = pin(byte(generation + 1))
		}
		done <- last
	}()
	var last *ebpf.Map
	for last == nil {
		select {
		case last = <-done:
		default:
			pollAll(t, l)
		}
	}
	pollAll(t, l)
	for _, d := range r.deltas {
		if len(d.Deletes) > 0 {
			t.Fatalf("told %d bytes of deletes", len(d.Deletes))
		}
	}
	if len(r.gaps) == 0 || len(r.gaps) > times {
		t.Errorf("%d gaps of %d replacements", len(r.gaps), times)
	}
	if len(r.problems) > 0 {
		t.Error(r.problems[0])
	}
	if got := len(r.maps[ctName]); got != entries {
		t.Errorf("readers know %d entries at the end", got)
	}
}

// TestPinGoesWhileTheMapIsUsed: without its pin the map is not Cilium's any more for those who read pins, though
// programs may still use it; what happens in it is not told.
func TestPinGoesWhileTheMapIsUsed(t *testing.T) {
	n := newNode(t)
	m := n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	put(t, m, 1, make([]byte, 12))
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	r.deltas = nil
	n.Unpin(svcName)
	put(t, m, 2, make([]byte, 12))
	pollAll(t, l)
	if len(r.deltas) != 1 || !r.deltas[0].Absent || len(l.tables) != 0 {
		t.Errorf("told %v, still open %v", r.deltas, l.tables)
	}
}

// TestFullMap: how full a map is can be told from its room, which is recorded with its entries, and none is missing at
// the limit (cilium#8060, #41121, #28936).
func TestFullMap(t *testing.T) {
	const policy, room = "cilium_policy_v3_00113", 32
	n := newNode(t)
	m := n.Pin(policy, ebpf.LPMTrie, 12, 12, room)
	for key := range room {
		put(t, m, key, make([]byte, 12))
	}
	if err := m.Put(keyOf(m, room), make([]byte, 12)); !isNoSpace(err) {
		t.Fatalf("one more: %v", err)
	}
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	r.equals(t, policy, m)
	if got := r.deltas[len(r.deltas)-1]; got.MaxEntries != room || len(r.maps[policy]) != room {
		t.Errorf("room for %d, %d entries; want %d of each", got.MaxEntries, len(r.maps[policy]), room)
	}
}

// TestConnectionsThatNeverExpire: CT entries without an expiry are told once, however long they stay and however many
// they get (cilium#40820), and once more when they get one.
func TestConnectionsThatNeverExpire(t *testing.T) {
	const name = "cilium_ct6_global"
	n := newNode(t)
	m := n.Pin(name, ebpf.LRUHash, 38, 56, 1<<15)
	r := newReplica()
	l := n.lane(r)
	now := uint32(100)
	l.ktime = func() uint32 { return now }
	told := func() (upserts, deletes int) {
		r.deltas = nil
		now += 3600
		pollAll(t, l)
		for _, d := range r.deltas {
			upserts += len(d.Upserts) / 94
			deletes += len(d.Deletes)
		}
		return upserts, deletes
	}
	told()
	for day := range 7 {
		for key := range 1000 {
			put(t, m, day*1000+key, make([]byte, 56))
		}
		if up, del := told(); up != 1000 || del != 0 {
			t.Errorf("day %d: told %d new, %d gone", day, up, del)
		}
	}
	if up, del := told(); up != 0 || del != 0 {
		t.Errorf("nothing happened: told %d, %d", up, del)
	}
	put(t, m, 0, append(append(make([]byte, 32), 0xff, 0xff, 0xff, 0), make([]byte, 20)...))
	if up, _ := told(); up != 1 {
		t.Errorf("one got an expiry: told %d", up)
	}
	r.equals(t, name, m)
}
