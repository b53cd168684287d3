package bpfmap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
)

// errIncomplete says that a walk did not see the whole map: others changed it too fast, or it took too long. What it
// saw must not be compared with anything.
var errIncomplete = errors.New("the map changed too fast to be read whole")

const (
	walkTries   = 5
	walkTimeout = 10 * time.Second // of one try
)

// reader is what a walk needs of a map.
type reader interface {
	KeySize() uint32
	BatchLookup(cursor *ebpf.MapBatchCursor, keysOut, valuesOut any, opts *ebpf.BatchOptions) (int, error)
	NextKey(key, nextKeyOut any) error
	Lookup(key, valueOut any) error
}

// walker reads one map whole.
type walker struct {
	m reader
	// stable says that a batch walk goes from bucket to bucket and meets each entry that stays exactly once,
	// whatever others do. Walks of tries, and from key to key, may be sent back to the start or skip an entry.
	stable  bool
	noBatch bool // the kernel has no batch lookup for this type of map
	// bound is how many entries a walk may return before it is taken to run in circles. Entries that come and go
	// behind the walk are counted too, so that it is more than the map can hold.
	bound    int
	timeout  time.Duration
	deadline time.Time // of the walk in progress
	seen     index
	twin     *snapshot // the second read of a map whose walk is not stable
}

func newWalker(m *ebpf.Map) *walker {
	t := m.Type()
	return &walker{m: m, stable: t == ebpf.Hash || t == ebpf.LRUHash || t == ebpf.HashOfMaps,
		bound: 2*int(m.MaxEntries()) + batch, timeout: walkTimeout}
}

// read fills s with the map's entries. errIncomplete after several tries, of which the last goes from key to key: a
// batch lookup can hang over a map that somebody else empties (cilium/ebpf#1955). One that took too long is not tried
// again.
func (w *walker) read(ctx context.Context, s *snapshot) error {
	for range walkTries - 1 {
		err := w.walk(ctx, s, true)
		if !errors.Is(err, errIncomplete) || ctx.Err() != nil {
			return err
		}
		if w.late(ctx) {
			break
		}
	}
	return w.walk(ctx, s, false)
}

// walk walks the map once, or twice where one walk proves nothing: then both must have met the same keys.
func (w *walker) walk(ctx context.Context, s *snapshot, inBatches bool) error {
	w.deadline = time.Now().Add(w.timeout)
	proven, err := w.once(ctx, s, inBatches)
	if err != nil || proven {
		return err
	}
	if w.twin == nil {
		w.twin = newSnapshot(s.keys.size, s.values.size, false)
	}
	if _, err := w.once(ctx, w.twin, inBatches); err != nil {
		return err
	}
	if !s.sameKeys(w.twin) || !w.unique(s) {
		return errIncomplete
	}
	return nil
}

func (w *walker) once(ctx context.Context, s *snapshot, inBatches bool) (proven bool, err error) {
	s.reset()
	if inBatches && !w.noBatch {
		err := w.batches(ctx, s)
		if !errors.Is(err, ebpf.ErrNotSupported) {
			return w.stable, err
		}
		w.noBatch = true
		s.reset()
	}
	return false, w.keys(ctx, s)
}

func (w *walker) late(ctx context.Context) bool {
	return ctx.Err() != nil || time.Now().After(w.deadline)
}

// unique is false when a key is there twice: the walk was sent back to the start.
func (w *walker) unique(s *snapshot) bool {
	w.seen.reset(s, s.n)
	for i := range s.n {
		if !w.seen.add(i) {
			return false
		}
	}
	return true
}

func (w *walker) batches(ctx context.Context, s *snapshot) error {
	var cursor ebpf.MapBatchCursor
	free, idle := minFree, 0
	for {
		s.reserve(free)
		to := min(s.keys.cap, s.n+max(batch, free))
		n, err := w.m.BatchLookup(&cursor, s.keys.part(s.n, to), s.values.part(s.n, to), nil)
		s.n += n
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist): // the end
			return nil
		case isNoSpace(err): // one bucket holds more than was free
			free *= 2
		case isInterrupted(err):
			return errIncomplete
		case err != nil:
			return fmt.Errorf("look up batch: %w", err)
		}
		if n != 0 {
			idle = 0
		} else if idle++; idle > 16 {
			return errIncomplete
		}
		if s.n > w.bound || w.late(ctx) {
			return errIncomplete
		}
	}
}

// keys goes from key to key, one entry at a time: slow, and sent back to the start when a key goes under its feet.
func (w *walker) keys(ctx context.Context, s *snapshot) error {
	var previous any
	next := make([]byte, w.m.KeySize())
	for turns := 0; ; turns++ {
		err := w.m.NextKey(previous, next)
		if errors.Is(err, ebpf.ErrKeyNotExist) { // the end
			return nil
		}
		if err != nil {
			return fmt.Errorf("get next key: %w", err)
		}
		s.reserve(1)
		err = w.m.Lookup(next, s.values.at(s.n))
		switch {
		case err == nil:
			copy(s.key(s.n), next)
			s.n++
		case !errors.Is(err, ebpf.ErrKeyNotExist):
			return fmt.Errorf("look up key: %w", err)
		}
		if turns > w.bound || w.late(ctx) {
			return errIncomplete
		}
		previous = next
	}
}
