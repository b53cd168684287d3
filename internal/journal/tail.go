package journal

import "sync"

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
