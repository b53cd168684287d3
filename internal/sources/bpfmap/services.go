package bpfmap

import (
	"context"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

const (
	// tornTries is how often a torn read is done again at once.
	tornTries = 5
	// tornFor is how long services may change during every read before what was read is told with a gap.
	tornFor = time.Second
)

// pollServices reads services, then backends and rev-NAT, then services again. The agent writes a backend before the
// first slot that names it and deletes it after the last, so between two equal reads of the services, backends
// holds every backend that they name.
//
// Nothing else changes without the services, so most polls read only them.
func (g *group) pollServices(ctx context.Context, p *packer, ktime func() uint32) error {
	start := time.Now()
	if !g.force && start.Sub(g.full) < fullEvery && g.torn.IsZero() {
		changed, whole, err := g.servicesChanged(ctx, p, ktime())
		if err != nil || !whole || !changed {
			return err
		}
	}
	for range tornTries {
		same, whole, err := g.readTwice(ctx, p)
		if err != nil || !whole {
			return err
		}
		if same {
			g.publish(p, ktime())
			g.full, g.torn, g.force = start, time.Time{}, false
			return nil
		}
	}
	if g.torn.IsZero() {
		g.torn = start
	}
	if now := time.Now(); now.Sub(g.torn) >= tornFor {
		p.seen = now
		p.gap(g.torn, eventpb.GapReason_GAP_REASON_LATE, "the services maps changed during every read, slots and backends may disagree")
		g.publish(p, ktime())
		g.full, g.torn = start, now
	}
	return nil
}

// servicesChanged reads the services alone.
func (g *group) servicesChanged(ctx context.Context, p *packer, now uint32) (changed, whole bool, err error) {
	for _, t := range g.tables {
		if t.again == nil {
			changed = changed || !t.dumped
			continue
		}
		if whole, err := t.read(ctx, t.cur, p); err != nil || !whole {
			return false, false, err
		}
		changed = changed || !t.dumped || !t.differ.compare(t.old, t.cur, now).empty()
	}
	return changed, true, nil
}

// readTwice reads the whole group. same: both reads of the services were equal, so that all of it belongs together.
func (g *group) readTwice(ctx context.Context, p *packer) (same, whole bool, err error) {
	read := func(when func(*table) bool, into func(*table) *snapshot) bool {
		for _, t := range g.tables {
			if !when(t) {
				continue
			}
			if whole, err = t.read(ctx, into(t), p); err != nil || !whole {
				return false
			}
		}
		return true
	}
	cur := func(t *table) *snapshot { return t.cur }
	twice := func(t *table) bool { return t.again != nil }
	once := func(t *table) bool { return t.again == nil }
	if !read(twice, cur) || !read(once, cur) || !read(twice, func(t *table) *snapshot { return t.again }) {
		return false, false, err
	}
	same = true
	for _, t := range g.tables {
		if t.again != nil {
			same = same && t.cur.sameBytes(t.again)
			t.cur, t.again = t.again, t.cur
		}
	}
	return same, true, nil
}

func (g *group) publish(p *packer, now uint32) {
	p.seen = time.Now()
	for _, t := range g.tables {
		t.publish(p, now)
	}
}
