package journal

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// groupSync and the search for empty blocks rest on where the server keeps the stream: a server that moved it would
// make both silently useless.
func TestBlocksFolder(t *testing.T) {
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	found, err := blocks(blocksOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	before := found["1.blk"].size
	emitAll(t, j.Emitter("kube"), string(make([]byte, 50_000)))
	if found, err = blocks(blocksOf(dir)); err != nil || found["1.blk"].size < before+50_000 {
		t.Errorf("blocks %v %v: the acknowledged event is not in them", found, err)
	}
}

// What the disk holds after each acknowledgement, as groupSync saw it, is all that was acknowledged.
func TestSyncAlwaysCoversWhatIsAcknowledged(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close(t.Context())
	emit := j.Emitter("bpfmap")
	for range 30 { // over the bounds of a block
		ev := events.New(&eventpb.MapDeltas{Maps: []*eventpb.MapDelta{{Upserts: make([]byte, 1<<20)}}})
		if err := emit(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	now, _ := j.tail.look()
	found, err := blocks(blocksOf(dir))
	if err != nil || len(found) < 2 {
		t.Fatalf("blocks %v %v", found, err)
	}
	if d := cmp.Diff(found, now.store.always.synced, cmp.AllowUnexported(blockState{})); d != "" {
		t.Errorf("not synced: %s", d)
	}
}

func fillBlocks(t *testing.T, dir string, n int) {
	t.Helper()
	j := openTest(t, dir, Options{})
	emit := j.Emitter("bpfmap")
	for range n {
		ev := events.New(&eventpb.MapDeltas{Maps: []*eventpb.MapDelta{{Upserts: make([]byte, 1<<20)}}})
		if err := emit(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// nats-server#3734: a block of no bytes made the stream forget its limits. The rest is read, what is missing is a
// gap with its count, and writing goes on.
func TestEmptyBlock(t *testing.T) {
	for name, index := range map[string]bool{"with the server's index": true, "without": false} {
		t.Run(name, func(t *testing.T) { testEmptyBlock(t, index) })
	}
}

func testEmptyBlock(t *testing.T, index bool) {
	dir := t.TempDir()
	const n = 30
	fillBlocks(t, dir, n)
	if err := os.Truncate(filepath.Join(blocksOf(dir), "2.blk"), 0); err != nil {
		t.Fatal(err)
	}
	if !index {
		removeAll(t, filepath.Join(blocksOf(dir), "index.db"))
	}
	j := openTest(t, dir, Options{})
	emitAll(t, j.Emitter("kube"), "after")
	var gap *eventpb.Gap
	seen, last := 0, uint64(0)
	err := j.Read(t.Context(), 1, 0, func(r Record) error {
		if r.Seq <= last {
			t.Errorf("position %d after %d", r.Seq, last)
		}
		seen, last = seen+1, r.Seq
		if g := decode(t, r.Data).GetGap(); g != nil {
			gap = g
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if gap == nil || gap.Count == 0 || int(gap.Count)+seen-1 != n+1 || last != n+1 {
		t.Errorf("%d records up to %d, gap %v", seen, last, gap)
	}
	found, err := blocks(blocksOf(dir))
	if b, ok := found["2.blk"]; err != nil || ok && b.size == 0 {
		t.Errorf("blocks %v %v: the empty one is still there", found, err)
	}
}

// nats-server#4842: the server's index is gone, and is made again from the blocks.
func TestWithoutServersIndex(t *testing.T) {
	dir := t.TempDir()
	fillBlocks(t, dir, 20)
	removeAll(t, filepath.Join(blocksOf(dir), "index.db"))
	j := openTest(t, dir, Options{})
	if first, last, err := j.Bounds(); first != 1 || last != 20 || err != nil {
		t.Errorf("bounds %d %d %v", first, last, err)
	}
}

// nats-server#3641: what may be stored does not depend on what is free, so that a store that filled its disk opens.
func TestMaxStoreIsExplicit(t *testing.T) {
	dir := t.TempDir()
	s, err := startServer(dir, time.Minute, Options{}.withDefaults().Logger)
	if err != nil {
		t.Fatal(err)
	}
	defer stopServer(s)
	if got := s.JetStreamConfig().MaxStore; got != maxStore {
		t.Errorf("max store %d", got)
	}
}

// Who opens a session only to read it keeps its bounds.
func TestBoundsAreKept(t *testing.T) {
	dir := t.TempDir()
	j := openTest(t, dir, Options{MaxBytes: 3 << 30, MaxAge: time.Hour})
	j.Close(t.Context())
	j = openTest(t, dir, Options{})
	now, _ := j.tail.look()
	info, err := now.store.info(t.Context())
	if err != nil || info.Config.MaxBytes != 3<<30 || info.Config.MaxAge != time.Hour {
		t.Errorf("config %+v %v", info.Config, err)
	}
}
