package bpfmap

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// TestReplacedMap: another map under a known name is one gap and one dump, not a delete for each entry.
func TestReplacedMap(t *testing.T) {
	n := newNode(t)
	first := n.Pin(ctName, ebpf.LRUHash, 14, 56, 1024)
	for key := range 100 {
		put(t, first, key, make([]byte, 56))
	}
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	second := n.Pin(ctName, ebpf.LRUHash, 14, 56, 2048)
	put(t, second, 1000, make([]byte, 56))
	r.deltas = nil
	pollAll(t, l)
	r.equals(t, ctName, second)
	if len(r.gaps) != 1 || r.gaps[0].Reason != eventpb.GapReason_GAP_REASON_REPLACED || r.gaps[0].FromNs >= r.gaps[0].ToNs {
		t.Errorf("gaps %v", r.gaps)
	}
	if len(r.deltas) != 1 || !r.deltas[0].Complete || r.deltas[0].MaxEntries != 2048 || len(r.deltas[0].Deletes) != 0 {
		t.Errorf("told %v", r.deltas)
	}
	info, err := second.Info()
	if id, _ := info.ID(); err != nil || r.deltas[0].MapId != uint32(id) {
		t.Errorf("map id %d, want %d (%v)", r.deltas[0].MapId, id, err)
	}
}

// TestSameMapPinnedAnew: the agent may take a pin away and give it back; nothing happened to the map.
func TestSameMapPinnedAnew(t *testing.T) {
	n := newNode(t)
	m := n.Pin(ctName, ebpf.LRUHash, 14, 56, 1024)
	put(t, m, 1, make([]byte, 56))
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	if err := m.Unpin(); err != nil {
		t.Fatal(err)
	}
	if err := m.Pin(n.Path(ctName)); err != nil {
		t.Fatal(err)
	}
	before := len(r.events)
	pollAll(t, l)
	if len(r.events) != before {
		t.Errorf("told %v", r.events[before:])
	}
	put(t, m, 2, make([]byte, 56))
	pollAll(t, l)
	r.equals(t, ctName, m)
}

// TestFolderAtRest: pins are listed only when the folder's time moved, and it moves whichever way a pin comes, goes or
// is replaced.
func TestFolderAtRest(t *testing.T) {
	n := newNode(t)
	n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	r := newReplica()
	l := n.lane(r)
	rest := func() {
		t.Helper()
		if err := os.Chtimes(n.Path(""), time.Time{}, time.Now().Add(-time.Minute)); err != nil {
			t.Skipf("cannot set the folder's time: %v", err)
		}
		for range 2 {
			pollAll(t, l)
		}
		if !l.seen.settled {
			t.Error("the folder is not taken to be at rest")
		}
		r.deltas, r.gaps = nil, nil
	}
	for _, tt := range []struct {
		what string
		do   func() error
		told func() bool
	}{
		{"a pin comes", func() error { n.Pin(backendName, ebpf.Hash, 4, 12, 64); return nil },
			func() bool { return len(r.deltas) == 1 && r.deltas[0].Map == backendName && r.deltas[0].Complete }},
		{"a pin is renamed over", func() error {
			n.Pin("new", ebpf.Hash, 4, 12, 128)
			rest()
			return os.Rename(n.Path("new"), n.Path(backendName))
		}, func() bool { return len(r.gaps) == 1 && len(r.deltas) == 1 && r.deltas[0].MaxEntries == 128 }},
		{"a pin goes", func() error { return os.Remove(n.Path(backendName)) },
			func() bool { return len(r.deltas) == 1 && r.deltas[0].Absent }},
	} {
		rest()
		if err := tt.do(); err != nil {
			t.Fatal(err)
		}
		pollAll(t, l)
		if !tt.told() {
			t.Errorf("%s: told %v, gaps %v", tt.what, r.deltas, r.gaps)
		}
	}
}

// TestMapsComeAndGo: policy maps do with their endpoints; and every map that a node may have is said to be absent
// when it is, so that readers of an older session's entries drop them.
func TestMapsComeAndGo(t *testing.T) {
	n := newNode(t)
	r := newReplica()
	l := n.lane(r)
	n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	pollAll(t, l)
	absent := map[string]bool{}
	for _, d := range r.deltas {
		absent[d.Map] = d.Absent
	}
	if !absent["cilium_lb6_services_v2"] || !absent[ctName] || absent[svcName] {
		t.Errorf("absent at the start: %v", absent)
	}
	const policy = "cilium_policy_v3_00113"
	m := n.Pin(policy, ebpf.LPMTrie, 12, 12, 64)
	put(t, m, 1, make([]byte, 12))
	pollAll(t, l)
	r.equals(t, policy, m)
	if err := m.Unpin(); err != nil {
		t.Fatal(err)
	}
	r.deltas = nil
	pollAll(t, l)
	if len(r.deltas) != 1 || r.deltas[0].Map != policy || !r.deltas[0].Absent {
		t.Errorf("told %v", r.deltas)
	}
	put(t, m, 2, make([]byte, 12))
	if err := m.Pin(n.Path(policy)); err != nil {
		t.Fatal(err)
	}
	pollAll(t, l)
	r.equals(t, policy, m)
	if len(r.gaps) != 0 {
		t.Errorf("gaps %v", r.gaps)
	}
}

// TestUnknownLayout: a map of a known name and other sizes is told, not decoded (cilium#41255); foreign pins are left
// alone.
func TestUnknownLayout(t *testing.T) {
	n := newNode(t)
	m := n.Pin(backendName, ebpf.Hash, 4, 16, 64)
	put(t, m, 1, make([]byte, 16))
	n.Pin("cilium_metrics", ebpf.Hash, 8, 16, 64)
	if err := os.Mkdir(n.Path(ctName), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	pollAll(t, l)
	var got []string
	for _, d := range r.deltas {
		if !d.Absent {
			got = append(got, fmt.Sprint(d.Map, d.KeySize, d.ValueSize, d.Unsupported, len(d.Upserts)))
		}
	}
	if diff := cmp.Diff([]string{fmt.Sprint(backendName, 4, 16, true, 0)}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCheckSaysTheMend(t *testing.T) {
	plain := t.TempDir()
	n := newNode(t)
	empty := newNode(t)
	n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	n.Pin(ctName, ebpf.LRUHash, 14, 56, 64)
	n.Pin("cilium_policy_v3_00113", ebpf.LPMTrie, 12, 12, 64)
	n.Pin("cilium_lxc", ebpf.Hash, 20, 48, 64)
	n.Pin(backendName, ebpf.Hash, 4, 16, 64)
	for _, tt := range []struct {
		bpffs string
		want  []string
	}{
		{plain + "/none", []string{"none: no such file or directory; mount"}},
		{plain, []string{"not a BPF file system; mount"}},
		{empty.Dir, []string{"no Cilium maps are pinned here; start the Cilium agent"}},
		{n.Dir, []string{
			"1 maps of services, backends and rev-NAT, 1 of connections, 1 of policies, 1 others",
			backendName + ": a layout that this version cannot read (keys of 4, values of 16 bytes); use a version",
		}},
	} {
		findings := New(Config{BPFFS: tt.bpffs}).Check(t.Context())
		var got []string
		for _, f := range findings {
			if f.Err != nil {
				got = append(got, f.Err.Error())
			} else {
				got = append(got, f.Seen)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q", tt.bpffs, got)
			continue
		}
		for i, want := range tt.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: got %q, want %q in it", tt.bpffs, got[i], want)
			}
		}
	}
}
