package bpfmap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/bpfmap/bpfmaptest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ctName      = "cilium_ct4_global"
	svcName     = "cilium_lb4_services_v2"
	backendName = "cilium_lb4_backends_v3"
)

// node is a made-up one.
type node struct{ *bpfmaptest.Node }

func newNode(tb testing.TB) *node { return &node{bpfmaptest.New(tb)} }

// lane is one that polls every map of the node when it is told to.
func (n *node) lane(r *replica) *lane {
	s := New(Config{BPFFS: n.Dir})
	l := s.lane(r.emit, func(cilium.Kind) bool { return true })
	n.TB.Cleanup(l.close)
	return l
}

// pollAll makes everything due and does it.
func pollAll(tb testing.TB, l *lane) {
	tb.Helper()
	for range 2 { // the first round may find new maps
		l.scan.due = time.Time{}
		for _, g := range l.groups {
			g.due, g.last, g.force = time.Time{}, time.Time{}, true
		}
		if err := l.round(context.Background()); err != nil {
			tb.Fatal(err)
		}
	}
}

// replica is what a reader of the events knows.
type replica struct {
	mu       sync.Mutex
	maps     map[string]map[string]string
	pending  map[string]map[string]string // dumps whose last part is not there yet
	events   []*eventpb.Event
	gaps     []*eventpb.Gap
	deltas   []*eventpb.MapDelta
	onEvent  func(r *replica) // called with mu held
	problems []string
	changed  chan struct{}
}

func newReplica() *replica {
	return &replica{maps: map[string]map[string]string{}, pending: map[string]map[string]string{}, changed: make(chan struct{}, 1)}
}

func (r *replica) emit(ctx context.Context, list ...*eventpb.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range list {
		r.events = append(r.events, e)
		if g := e.GetGap(); g != nil {
			r.gaps = append(r.gaps, g)
		}
		for _, d := range e.GetMaps().GetMaps() {
			r.apply(d)
		}
		if r.onEvent != nil {
			r.onEvent(r)
		}
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return ctx.Err()
}

func (r *replica) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r *replica) apply(d *eventpb.MapDelta) {
	r.deltas = append(r.deltas, d)
	if n := len(d.Upserts) + len(d.Deletes); n > partSize {
		r.problem("%s: one delta has %d bytes", d.Map, n)
	}
	if d.Absent || d.Unsupported {
		delete(r.maps, d.Map)
		return
	}
	into := r.maps[d.Map]
	if d.Complete {
		if d.Part == 1 {
			r.pending[d.Map] = map[string]string{}
		}
		if into = r.pending[d.Map]; into == nil {
			r.problem("%s: part %d without part 1", d.Map, d.Part)
			return
		}
	} else if into == nil {
		r.problem("%s: a change before the dump", d.Map)
		return
	}
	k, entry := int(d.KeySize), int(d.KeySize+d.ValueSize)
	for b := d.Deletes; len(b) > 0; b = b[k:] {
		if _, ok := into[string(b[:k])]; !ok {
			r.problem("%s: %x is deleted and was not there", d.Map, b[:k])
		}
		delete(into, string(b[:k]))
	}
	for b := d.Upserts; len(b) > 0; b = b[entry:] {
		into[string(b[:k])] = string(b[k:entry])
	}
	if d.Complete && d.Part == d.Parts {
		r.maps[d.Map] = into
		delete(r.pending, d.Map)
	}
}

// expect waits until cond holds.
func (r *replica) expect(t *testing.T, what string, cond func(*replica) bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		ok := cond(r)
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.changed:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// kernel is what a map holds, read by ebpf's own iterator while nobody writes.
func kernel(t *testing.T, m *ebpf.Map) map[string]string {
	t.Helper()
	key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	got := map[string]string{}
	var previous any
	for {
		err := m.NextKey(previous, key)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return got
		}
		if err == nil {
			err = m.Lookup(key, value)
		}
		if err != nil {
			t.Fatal(err)
		}
		got[string(key)] = string(value)
		previous = append([]byte(nil), key...)
	}
}

func (r *replica) equals(t *testing.T, name string, m *ebpf.Map) {
	t.Helper()
	r.mu.Lock()
	got := maps.Clone(r.maps[name])
	problems := r.problems
	r.mu.Unlock()
	want := kernel(t, m)
	if len(got) == len(want) && len(want) == 0 {
		got = want
	}
	if !maps.Equal(want, got) {
		t.Fatalf("%s (-kernel +events):\n%s", name, cmp.Diff(want, got))
	}
	if len(problems) > 0 {
		t.Fatal(problems)
	}
}

// unpinFolder takes Cilium's folder away.
func (n *node) unpinFolder() {
	n.TB.Helper()
	if err := os.RemoveAll(filepath.Join(n.Dir, "tc")); err != nil {
		n.TB.Error(err)
	}
}
