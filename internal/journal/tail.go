package journal

import (
	"slices"
	"sync"
)

// tail is what readers know of the journal: the store that runs now, and how far it is acknowledged.
type tail struct {
	mu      sync.Mutex
	now     tailState
	changed chan struct{}
}

type tailState struct {
	store  *store // nil while it is being started again
	last   uint64
	closed bool
	// Why events cannot be stored; nil while they can.
	trouble error
	// How often the stream lost its tail while it was open.
	regressions int
	// The newest records, up to last, without holes: who follows closely is given these and asks the store for
	// nothing.
	recent []Record
}

const (
	recentItems = 256
	recentBytes = 1 << 20
)

// add moves on to the records that were acknowledged last.
func (s *tailState) add(recs []Record) {
	all := recs
	if n := len(s.recent); n > 0 && s.recent[n-1].Seq+1 == recs[0].Seq {
		all = append(slices.Clip(s.recent), recs...) // readers have the old one
	}
	size, keep := 0, 0
	for i := len(all) - 1; i >= 0 && keep < recentItems && size+len(all[i].Data) <= recentBytes; i-- {
		size += len(all[i].Data)
		keep++
	}
	s.recent, s.last = slices.Clone(all[len(all)-keep:]), recs[len(recs)-1].Seq
}

// from returns the records from seq on when all of them are recent.
func (s *tailState) from(seq uint64) []Record {
	if len(s.recent) == 0 || seq < s.recent[0].Seq || s.recent[len(s.recent)-1].Seq != s.last {
		return nil
	}
	return slices.Clip(s.recent[seq-s.recent[0].Seq:])
}

// look returns the state and a channel that is closed when there is another.
func (t *tail) look() (tailState, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now, t.changed
}

func (t *tail) update(change func(*tailState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.now)
	close(t.changed)
	t.changed = make(chan struct{})
}
