package kube

import (
	"context"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"google.golang.org/protobuf/proto"
)

const (
	// window is how long a change waits for others to share its event.
	window = 10 * time.Millisecond
	// eventSize bounds an event's objects in bytes, well below a message's limit.
	eventSize = 256 << 10
)

// batcher puts the changes of all kinds into events, one after the other.
type batcher struct {
	in       <-chan change
	emit     events.Emit
	index    *index
	triggers []sources.Trigger
	waiting  int // kinds whose first list is still to come
	ready    func()

	pending []batch
}

// batch becomes the events of one kind: a gap if there was one, then the objects.
type batch struct {
	gap  *eventpb.Gap
	body *eventpb.KubeObjects
	seen time.Time // of the first change
}

// run emits until ctx ends or emit fails.
func (b *batcher) run(ctx context.Context) error {
	var due <-chan time.Time
	listed := make(map[eventpb.Kind]bool)
	for {
		select {
		case c := <-b.in:
			b.add(c)
			if due == nil {
				due = time.After(window)
			}
			if c.whole {
				listed[c.kind] = true
			}
		case <-due:
			due = nil
			if err := b.flush(ctx); err != nil {
				return err
			}
			if b.waiting > 0 && len(listed) >= b.waiting {
				b.waiting = 0
				b.index.setSynced()
				b.ready()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add joins a change to the batch of its kind. Order holds within a kind; between kinds the API has none.
func (b *batcher) add(c change) {
	b.fire(c.kind)
	if c.whole {
		body := &eventpb.KubeObjects{Kind: c.kind, Complete: true, Objects: c.list}
		b.pending = append(b.pending, batch{gap: c.gap, body: body, seen: c.seen})
		return
	}
	for i := len(b.pending) - 1; i >= 0; i-- {
		body := b.pending[i].body
		if body.Kind != c.kind {
			continue
		}
		if body.Complete {
			break
		}
		body.Objects = append(body.Objects, c.object)
		return
	}
	body := &eventpb.KubeObjects{Kind: c.kind, Objects: []*eventpb.KubeObject{c.object}}
	b.pending = append(b.pending, batch{body: body, seen: c.seen})
}

// fire wakes those who look at what the agent makes of a change.
func (b *batcher) fire(kind eventpb.Kind) {
	switch kind {
	case eventpb.Kind_KIND_SERVICE, eventpb.Kind_KIND_ENDPOINT_SLICE, eventpb.Kind_KIND_POD:
		for _, t := range b.triggers {
			t.Fire()
		}
	}
}

func (b *batcher) flush(ctx context.Context) error {
	var list []*eventpb.Event
	for _, p := range b.pending {
		if p.gap != nil {
			list = append(list, events.New(p.gap))
		}
		for _, part := range parts(p.body, eventSize) {
			e := events.New(part)
			e.SeenNs = p.seen.UnixNano()
			list = append(list, e)
		}
	}
	if err := b.emit(ctx, list...); err != nil {
		return err
	}
	for _, p := range b.pending {
		b.index.apply(p.body)
	}
	b.pending = nil
	return nil
}

// parts cuts what is larger than limit bytes into several events.
func parts(body *eventpb.KubeObjects, limit int) []*eventpb.KubeObjects {
	var out []*eventpb.KubeObjects
	start, size := 0, 0
	cut := func(end int) {
		out = append(out, &eventpb.KubeObjects{Kind: body.Kind, Complete: body.Complete, Objects: body.Objects[start:end]})
		start, size = end, 0
	}
	for i, o := range body.Objects {
		n := proto.Size(o)
		if size > 0 && size+n > limit {
			cut(i)
		}
		size += n
	}
	cut(len(body.Objects))
	if body.Complete && len(out) > 1 {
		for i, p := range out {
			p.Part, p.Parts = uint32(i+1), uint32(len(out))
		}
	}
	return out
}
