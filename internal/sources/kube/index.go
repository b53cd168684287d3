package kube

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// index holds the objects that were emitted last. It outlives a Run, so that the other sources keep their aim
// while the API server is away.
type index struct {
	mu      sync.Mutex
	objects map[eventpb.Kind]map[key]*eventpb.KubeObject
	changed chan struct{}
	synced  chan struct{}
	once    sync.Once
}

type key struct{ namespace, name string }

func keyOf(o *eventpb.KubeObject) key { return key{o.Namespace, o.Name} }

func newIndex() *index {
	return &index{
		objects: make(map[eventpb.Kind]map[key]*eventpb.KubeObject),
		changed: make(chan struct{}),
		synced:  make(chan struct{}),
	}
}

// apply takes over what was emitted, a list in one piece, and wakes those who wait for a change.
func (x *index) apply(e *eventpb.KubeObjects) {
	x.mu.Lock()
	defer x.mu.Unlock()
	objects := x.objects[e.Kind]
	if objects == nil || e.Complete {
		objects = make(map[key]*eventpb.KubeObject)
		x.objects[e.Kind] = objects
	}
	for _, o := range e.Objects {
		if o.Deleted {
			delete(objects, keyOf(o))
		} else {
			objects[keyOf(o)] = o
		}
	}
	close(x.changed)
	x.changed = make(chan struct{})
}

func (x *index) setSynced() { x.once.Do(func() { close(x.synced) }) }

// Synced returns a channel that is closed once every kind has been listed.
func (x *index) Synced() <-chan struct{} { return x.synced }

// Object returns nil when there is none, or none yet.
func (x *index) Object(kind eventpb.Kind, namespace, name string) *eventpb.KubeObject {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.objects[kind][key{namespace, name}]
}

// Objects lists those of one kind in order of namespace and name.
func (x *index) Objects(kind eventpb.Kind) []*eventpb.KubeObject {
	x.mu.Lock()
	defer x.mu.Unlock()
	return inOrder(x.objects[kind])
}

// Changed returns a channel that is closed at the next change.
func (x *index) Changed() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.changed
}

func inOrder(m map[key]*eventpb.KubeObject) []*eventpb.KubeObject {
	return slices.SortedFunc(maps.Values(m), func(a, b *eventpb.KubeObject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
