package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

func TestFollowSeesAllInOrder(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{})
	const sources, each = 4, 300
	for s := range sources {
		go func() {
			emit := j.Emitter(fmt.Sprint("s", s))
			for i := range each {
				if emit(t.Context(), mark("%d", i)) != nil {
					return
				}
			}
		}()
	}
	var seq uint64
	perSource := map[string]uint64{}
	done := errors.New("done")
	err := j.Follow(t.Context(), 1, func(recs []Record) error {
		for _, r := range recs {
			ev := decode(t, r.Data)
			if r.Seq != seq+1 || ev.SourceSeq != perSource[ev.Source]+1 {
				t.Errorf("record %d after %d: %s %d after %d", r.Seq, seq, ev.Source, ev.SourceSeq, perSource[ev.Source])
			}
			seq, perSource[ev.Source] = r.Seq, ev.SourceSeq
		}
		if seq == sources*each {
			return done
		}
		return nil
	})
	if err != done || len(perSource) != sources {
		t.Errorf("err %v, at %d of %v", err, seq, perSource)
	}
}

// A follower that waits is woken by the event, not by a timer: in the bubble no time passes but the emitter's own.
func TestFollowWakesAtOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, err := Open(dir, Options{Node: "n1", Sync: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var late []time.Duration
		ended := make(chan error)
		go func() {
			ended <- j.Follow(ctx, 1, func(recs []Record) error {
				for _, r := range recs {
					late = append(late, time.Since(time.Unix(0, decode(t, r.Data).SeenNs)))
				}
				return nil
			})
		}()
		emit := j.Emitter("probe")
		for range 12 {
			time.Sleep(5 * time.Second)
			emitAll(t, emit, "tick")
		}
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("follow ended with %v", err)
		}
		if d := cmp.Diff(make([]time.Duration, 12), late); d != "" {
			t.Errorf("lateness: %s", d)
		}
		if err := j.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// nats-server#2055, #5412: after a power cut the stream may end before where a reader is.
func TestFollowRefusesARegressedJournal(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{})
	emitAll(t, j.Emitter("kube"), "a", "b")
	if err := j.Follow(t.Context(), 4, nil); !errors.Is(err, ErrRegressed) {
		t.Errorf("from 4 of 2: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Follow(ctx, 3, nil); err != nil {
		t.Errorf("from 3 of 2, the next to come: %v", err)
	}
}

// The stream loses its tail while it is followed: positions are given anew, so the follower must not go on.
func TestFollowEndsWhenTheJournalRegresses(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{})
	emitAll(t, j.Emitter("kube"), "a", "b")
	err := j.Follow(t.Context(), 1, func(recs []Record) error {
		j.tail.update(func(s *tailState) { s.last, s.regressions = 1, s.regressions+1 })
		return nil
	})
	if !errors.Is(err, ErrRegressed) {
		t.Errorf("err %v", err)
	}
}

// A folder whose stream was lost and made again has the session's id, positions from 1, and another identity.
func TestIdentityChangesWithTheStream(t *testing.T) {
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	emitAll(t, j.Emitter("kube"), "a")
	session, identity := j.Session(), j.Identity()
	j.Close(t.Context())
	removeAll(t, dir+"/jetstream")
	j = openTest(t, dir, Options{})
	if j.Session() != session || j.Identity() == identity {
		t.Errorf("session %s %s, identity %s %s", session, j.Session(), identity, j.Identity())
	}
}

// At the store's bound the oldest go, nothing is refused, and a follower from 1 starts at what is left.
func TestOldestAreRetiredAtTheBound(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{MaxBytes: 1 << 20})
	emit := j.Emitter("bpfmap")
	const n = 300
	for range n / 10 {
		var evs []*eventpb.Event
		for range 10 {
			evs = append(evs, events.New(&eventpb.MapDeltas{Maps: []*eventpb.MapDelta{{Upserts: make([]byte, 10_000)}}}))
		}
		if err := emit(t.Context(), evs...); err != nil {
			t.Fatal(err)
		}
	}
	first, last, err := j.Bounds()
	if err != nil || last != n || first < n-110 || first > n-90 {
		t.Fatalf("bounds %d %d %v", first, last, err)
	}
	var seqs []uint64
	ctx, cancel := context.WithCancel(t.Context())
	err = j.Follow(ctx, 1, func(recs []Record) error {
		for _, r := range recs {
			seqs = append(seqs, r.Seq)
		}
		if seqs[len(seqs)-1] == last {
			cancel()
		}
		return nil
	})
	if err != nil || seqs[0] != first || uint64(len(seqs)) != last-first+1 || !slices.IsSorted(seqs) {
		t.Errorf("followed %d from %d, %v", len(seqs), seqs[0], err)
	}
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}
