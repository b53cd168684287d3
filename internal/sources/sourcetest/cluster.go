package sourcetest

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// Cluster is a cluster that a test makes up.
type Cluster struct {
	mu      sync.Mutex
	objects []*eventpb.KubeObject
	changed chan struct{}
}

var _ sources.Cluster = (*Cluster)(nil)

// NewCluster returns a cluster of these objects.
func NewCluster(objects ...*eventpb.KubeObject) *Cluster {
	return &Cluster{objects: objects, changed: make(chan struct{})}
}

// Set puts other objects in place of all, and wakes those who wait for a change.
func (c *Cluster) Set(objects ...*eventpb.KubeObject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects = objects
	close(c.changed)
	c.changed = make(chan struct{})
}

// Object returns nil when there is none.
func (c *Cluster) Object(kind eventpb.Kind, namespace, name string) *eventpb.KubeObject {
	for _, o := range c.Objects(kind) {
		if o.Namespace == namespace && o.Name == name {
			return o
		}
	}
	return nil
}

// Objects lists those of one kind in order of namespace and name.
func (c *Cluster) Objects(kind eventpb.Kind) []*eventpb.KubeObject {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*eventpb.KubeObject
	for _, o := range c.objects {
		if kindOf(o) == kind {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *eventpb.KubeObject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func kindOf(o *eventpb.KubeObject) eventpb.Kind {
	switch {
	case o.Service != nil:
		return eventpb.Kind_KIND_SERVICE
	case o.EndpointSlice != nil:
		return eventpb.Kind_KIND_ENDPOINT_SLICE
	case o.Pod != nil:
		return eventpb.Kind_KIND_POD
	case o.Node != nil:
		return eventpb.Kind_KIND_NODE
	case o.CiliumEndpoint != nil:
		return eventpb.Kind_KIND_CILIUM_ENDPOINT
	}
	return eventpb.Kind_KIND_UNSPECIFIED
}

// Changed returns a channel that is closed at the next change.
func (c *Cluster) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}
