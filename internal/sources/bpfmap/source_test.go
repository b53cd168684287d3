package bpfmap

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// start runs the source until the test ends.
func start(t *testing.T, c Config, r *replica) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- New(c).Run(ctx, r.emit, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case <-ready:
	case <-time.After(20 * time.Second):
		t.Fatal("never ready")
	}
}

// TestRun: when the source is ready its snapshot is stored, and then it follows every map in its own time.
func TestRun(t *testing.T) {
	n := newNode(t)
	ct := n.Pin(ctName, ebpf.LRUHash, 14, 56, 1024)
	services := n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	put(t, ct, 1, make([]byte, 56))
	put(t, services, 1, make([]byte, 12))
	r := newReplica()
	start(t, Config{BPFFS: n.Dir, Connections: 10 * time.Millisecond, Pins: 10 * time.Millisecond}, r)
	r.equals(t, ctName, ct)
	r.equals(t, svcName, services)
	put(t, ct, 2, make([]byte, 56))
	put(t, services, 2, make([]byte, 12))
	r.expect(t, "both changes", func(r *replica) bool { return len(r.maps[ctName]) == 2 && len(r.maps[svcName]) == 2 })
	policy := n.Pin("cilium_policy_v3_00113", ebpf.LPMTrie, 12, 12, 64)
	put(t, policy, 1, make([]byte, 12))
	r.expect(t, "a new map", func(r *replica) bool { return r.maps["cilium_policy_v3_00113"] != nil })
}

// TestTriggerPollsAtOnce, though nothing is due for an hour.
func TestTriggerPollsAtOnce(t *testing.T) {
	n := newNode(t)
	services := n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	affinity := n.Pin("cilium_lb4_affinity", ebpf.LRUHash, 16, 16, 64)
	trigger := sources.NewTrigger()
	r := newReplica()
	start(t, Config{BPFFS: n.Dir, Trigger: trigger, Services: time.Hour, Pins: time.Hour}, r)
	put(t, services, 1, make([]byte, 12))
	put(t, affinity, 1, make([]byte, 16))
	trigger.Fire()
	r.expect(t, "the changes", func(r *replica) bool {
		return len(r.maps[svcName]) == 1 && len(r.maps["cilium_lb4_affinity"]) == 1
	})
}

func TestRunWithoutBPFFS(t *testing.T) {
	dir := t.TempDir()
	for _, bpffs := range []string{dir, dir + "/none"} {
		err := New(Config{BPFFS: bpffs}).Run(t.Context(), newReplica().emit, func() { t.Error("ready") })
		var trouble *events.Trouble
		if !errors.As(err, &trouble) || trouble.Mend == "" {
			t.Errorf("%s: %v", bpffs, err)
		}
	}
}

// TestRunEndsWhenTheFolderGoes: the supervisor then says so and tries again.
func TestRunEndsWhenTheFolderGoes(t *testing.T) {
	n := newNode(t)
	err := New(Config{BPFFS: n.Dir, Pins: 5 * time.Millisecond}).Run(t.Context(), newReplica().emit, func() { n.unpinFolder() })
	var trouble *events.Trouble
	if !errors.As(err, &trouble) {
		t.Errorf("run ended with %v", err)
	}
}

func TestBlockedEmitEndsWithTheContext(t *testing.T) {
	n := newNode(t)
	n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	ctx, cancel := context.WithCancel(context.Background())
	blocked := func(ctx context.Context, _ ...*eventpb.Event) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	if err := New(Config{BPFFS: n.Dir}).Run(ctx, blocked, func() { t.Error("ready") }); err != nil {
		t.Errorf("run: %v", err)
	}
}
