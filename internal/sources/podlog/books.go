package podlog

import "sync"

// books remember how far each container's log was emitted, over breaks of the source.
type books struct {
	resume func(id string) int64

	mu    sync.Mutex
	seen  map[string]*seen
	ended map[string]bool // the log was emitted to its end
}

func newBooks(resume func(string) int64) *books {
	return &books{resume: resume, seen: make(map[string]*seen), ended: make(map[string]bool)}
}

// of returns a container's page. Only its one reader uses it.
func (b *books) of(id string) *seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.seen[id]
	if s == nil {
		s = &seen{}
		if b.resume != nil {
			s = resumed(b.resume(id))
		}
		b.seen[id] = s
	}
	return s
}

// end says that nothing more comes of a container's log; what was seen of it is not needed any more.
func (b *books) end(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended[id] = true
	delete(b.seen, id)
}

func (b *books) isEnded(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended[id]
}

// keep forgets all containers but these.
func (b *books) keep(ids map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.ended {
		if !ids[id] {
			delete(b.ended, id)
		}
	}
	for id := range b.seen {
		if !ids[id] {
			delete(b.seen, id)
		}
	}
}
