package kube

import (
	"context"
	"fmt"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// change is what one kind's watch saw: one object, or with list set the whole list, and the gap it follows.
type change struct {
	kind   eventpb.Kind
	object *eventpb.KubeObject
	list   []*eventpb.KubeObject
	whole  bool
	gap    *eventpb.Gap
	seen   time.Time
}

// store is where the reflector of one kind puts what it gets: it turns that into changes. Only the reflector
// calls it, one call at a time.
type store struct {
	ctx  context.Context // of the run: a full channel must not hold up the end
	res  resource
	link *link
	out  chan<- change

	known   map[key]*eventpb.KubeObject
	version string // the resourceVersion that known stands at
	listed  bool
}

var (
	_ cache.ReflectorStore         = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
	_ cache.ResourceVersionUpdater = (*store)(nil)
)

func (s *store) Add(obj any) error { return s.put(obj) }

func (s *store) Update(obj any) error { return s.put(obj) }

func (s *store) put(obj any) error {
	s.link.alive()
	o := s.res.convert(obj)
	if o == nil {
		// Not of this node, or not any more.
		return s.Delete(obj)
	}
	before := s.known[keyOf(o)]
	s.known[keyOf(o)] = o
	if before != nil && sameFacts(before, o) {
		return nil
	}
	return s.send(change{object: o})
}

func (s *store) Delete(obj any) error {
	s.link.alive()
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("read deleted %s: %w", s.res.name, err)
	}
	k := key{m.GetNamespace(), m.GetName()}
	before := s.known[k]
	if before == nil {
		return nil
	}
	delete(s.known, k)
	return s.send(change{object: &eventpb.KubeObject{
		Deleted: true, Namespace: k.namespace, Name: k.name, Uid: before.Uid, ResourceVersion: m.GetResourceVersion(),
	}})
}

// Replace takes a whole list: the first one, or one made anew after a watch that could not be resumed.
func (s *store) Replace(list []any, version string) error {
	now := time.Now()
	c := change{whole: true, seen: now}
	if s.listed {
		c.gap = &eventpb.Gap{
			FromNs: s.link.lostSince(now).UnixNano(), ToNs: now.UnixNano(),
			Reason: eventpb.GapReason_GAP_REASON_RELIST,
			Detail: fmt.Sprintf("%s listed anew: resourceVersion %s to %s", s.res.name, orNone(s.version), orNone(version)),
		}
	}
	known := make(map[key]*eventpb.KubeObject, len(list))
	for _, obj := range list {
		if o := s.res.convert(obj); o != nil {
			known[keyOf(o)] = o
		}
	}
	s.known, s.version, s.listed = known, version, true
	c.list = inOrder(known)
	s.link.alive()
	return s.send(c)
}

// Resync has nothing to do: no resync period is set.
func (s *store) Resync() error { return nil }

// Bookmark says that the watch is alive and has seen everything up to a version.
func (s *store) Bookmark(string) error {
	s.link.alive()
	return nil
}

// UpdateResourceVersion is called after each thing that the watch brought.
func (s *store) UpdateResourceVersion(version string) { s.version = version }

func (s *store) send(c change) error {
	c.kind = s.res.kind
	if c.seen.IsZero() {
		c.seen = time.Now()
	}
	select {
	case s.out <- c:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// sameFacts compares all that is recorded but the resourceVersion: a heartbeat or a managed field is no change.
func sameFacts(a, b *eventpb.KubeObject) bool {
	if a.ResourceVersion == b.ResourceVersion {
		return a.Uid == b.Uid
	}
	// b is not shared yet.
	version := b.ResourceVersion
	b.ResourceVersion = a.ResourceVersion
	same := proto.Equal(a, b)
	b.ResourceVersion = version
	return same
}

func orNone(version string) string {
	if version == "" {
		return "none"
	}
	return version
}
