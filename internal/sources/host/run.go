package host

import (
	"context"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// Changes come in bursts (a pod's device, its addresses, its programs), so a look waits a little after the bell.
const (
	linkDelay = 10 * time.Millisecond
	ruleDelay = 100 * time.Millisecond
	// A neighbour is asked for and answers within this time, mostly.
	neighDelay = 100 * time.Millisecond
	// Whoever attaches a program fills the arrays that it calls others through before, or soon after.
	reachDelay = 3 * time.Second
)

// run is what one call of Source.Run knows. Only its own goroutine touches it.
type run struct {
	cfg   Config
	bells *bells

	rules, links, neighbours, filters, attachments, reach, listeners, pods *topic

	topics []*topic // in the order in which they look
}

// newRun sets each topic's pace: what a look costs (see BenchmarkLooks) times how often it is made stays under
// half a percent of a core on an idle node; a hundred pods add as much again.
func newRun(cfg Config, b *bells) *run {
	r := &run{cfg: cfg, bells: b}
	links := &links{}
	filters := &filters{links: links}
	r.rules = &topic{name: "rules", every: 30 * time.Second, apart: time.Second, share: 0.02, looker: newRules(cfg)}
	r.links = &topic{name: "links", every: 10 * time.Second, apart: 20 * time.Millisecond, share: 0.02, looker: links}
	r.neighbours = &topic{name: "neighbours", every: 30 * time.Second, apart: time.Second, share: 0.005,
		looker: &neighbours{links: links}}
	r.filters = &topic{name: "tc filters", every: 30 * time.Second, apart: 50 * time.Millisecond, share: 0.02, looker: filters}
	attachments := newAttachments(cfg, links, filters)
	r.attachments = &topic{name: "programs", every: 2 * time.Second, apart: 100 * time.Millisecond, share: 0.02, looker: attachments}
	r.reach = &topic{name: "tail calls", share: 0.02, looker: attachments.reach}
	r.listeners = &topic{name: "listeners", every: time.Second, apart: 100 * time.Millisecond, share: 0.01,
		looker: &listeners{proc: cfg.Proc}}
	r.pods = &topic{name: "pod sockets", apart: 50 * time.Millisecond, share: 0.006,
		looker: newPods(cfg)}
	r.topics = []*topic{r.rules, r.links, r.neighbours, r.filters, r.attachments, r.reach, r.listeners, r.pods}
	return r
}

func (r *run) loop(ctx context.Context, emit events.Emit, ready func()) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	changed := r.clusterChanged()
	for {
		if err := r.lookAndEmit(ctx, emit); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if ready != nil {
			ready()
			ready = nil
		}
		timer.Reset(time.Until(r.next()))
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.bells.broken:
			return err
		case <-timer.C:
		case <-changed:
			changed = r.clusterChanged()
			r.pods.ring(time.Now(), 0)
		case <-r.cfg.Trigger:
			r.ring(0, r.attachments, r.listeners, r.pods)
		case <-r.bells.route:
			r.ring(linkDelay, r.links, r.filters, r.attachments)
		case <-r.bells.neigh:
			r.ring(neighDelay, r.neighbours)
		case <-r.bells.nft:
			r.ring(ruleDelay, r.rules)
		}
	}
}

// clusterChanged is taken before the look that it makes out of date.
func (r *run) clusterChanged() <-chan struct{} {
	if r.cfg.Cluster == nil {
		return nil
	}
	return r.cfg.Cluster.Changed()
}

func (r *run) ring(delay time.Duration, topics ...*topic) {
	now := time.Now()
	for _, t := range topics {
		t.ring(now, delay)
	}
}

// next is when the first topic is due.
func (r *run) next() time.Time {
	next := r.topics[0].due
	for _, t := range r.topics {
		if t.due.Before(next) {
			next = t.due
		}
	}
	return next
}

// follow has the topics look in the same round that start from what this one has just found anew.
func (r *run) follow(t *topic, state *eventpb.HostState) {
	now := time.Now()
	switch {
	case t == r.links && state.Links != nil:
		r.neighbours.hurry(now)
		r.filters.hurry(now)
		r.attachments.hurry(now)
	case t == r.filters && state.TcFilters != nil:
		r.attachments.hurry(now)
	case t == r.attachments && state.Attachments != nil:
		r.reach.ring(now, reachDelay)
	}
}

// lookAndEmit makes the looks that are due and emits what they found as one event, gaps before it.
func (r *run) lookAndEmit(ctx context.Context, emit events.Emit) error {
	var batch []*eventpb.Event
	for _, gap := range r.bells.gaps() {
		batch = append(batch, events.New(gap))
	}
	state := &eventpb.HostState{}
	for _, t := range r.topics {
		gap, err := t.run(ctx, state)
		if err != nil {
			return err
		}
		if gap != nil {
			batch = append(batch, events.New(gap))
		}
		if p, ok := t.looker.(*pods); ok {
			if gap := p.gap(); gap != nil {
				batch = append(batch, events.New(gap))
			}
		}
		r.follow(t, state)
	}
	if proto.Size(state) > 0 {
		batch = append(batch, events.New(state))
	}
	if len(batch) == 0 {
		return nil
	}
	return emit(ctx, batch...)
}
