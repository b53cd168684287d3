package agent

import (
	"context"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

const (
	// configInterval: the configuration changes with the agent's restart, else by hand.
	configInterval = 10 * time.Second
	// streamedFactor: where each change of a frontend asks for the services, and the end of a stream tells of the
	// agent's end, services and status are polled only to be sure.
	streamedFactor = 5
	// A resource rests for restFactor times what its poll took, at most maxRest: a large node is polled less
	// often instead of costing more.
	restFactor = 50
	maxRest    = 30 * time.Second
	// rereadDelay lets the changes that come together be one poll of the services.
	rereadDelay = 20 * time.Millisecond
)

// poller asks the REST API. Its methods are not for concurrent use.
type poller struct {
	client   *client
	interval time.Duration
	streamed bool // the tables are followed; changes of the services are asked for through reread
	lists    []*list
	next     []time.Time       // when each of lists is due
	reread   sources.Trigger   // asks for the services soon
	triggers []sources.Trigger // fired when endpoints or services changed
}

func newPoller(c *client, interval time.Duration, triggers []sources.Trigger) *poller {
	p := &poller{client: c, interval: interval, reread: sources.NewTrigger(), triggers: triggers}
	for _, r := range resources {
		p.lists = append(p.lists, newList(r))
	}
	p.next = make([]time.Time, len(p.lists))
	return p
}

// snapshot reads every resource once; all are complete the first time.
func (p *poller) snapshot(ctx context.Context) ([]*eventpb.Event, error) {
	var out []*eventpb.Event
	for i := range p.lists {
		e, err := p.poll(ctx, i)
		if err != nil {
			return nil, err
		}
		if e != nil {
			out = append(out, e)
		}
	}
	return out, nil
}

// run polls what is due until ctx ends, and hands over what changed.
func (p *poller) run(ctx context.Context, out chan<- *eventpb.Event) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		i := p.due()
		timer.Reset(time.Until(p.next[i]))
		select {
		case <-ctx.Done():
			return nil
		case <-p.reread:
			p.hasten("service", time.Now().Add(rereadDelay))
			continue
		case <-timer.C:
		}
		e, err := p.poll(ctx, i)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		select {
		case out <- e:
		case <-ctx.Done():
			return nil
		}
	}
}

// due is the resource whose turn comes first.
func (p *poller) due() int {
	first := 0
	for i := range p.next {
		if p.next[i].Before(p.next[first]) {
			first = i
		}
	}
	return first
}

// hasten makes a resource due at the given time if it is not due before.
func (p *poller) hasten(kind string, at time.Time) {
	for i, l := range p.lists {
		if l.kind == kind && at.Before(p.next[i]) {
			p.next[i] = at
		}
	}
}

// poll reads one resource; the event is nil when nothing changed.
func (p *poller) poll(ctx context.Context, i int) (*eventpb.Event, error) {
	l := p.lists[i]
	start := time.Now()
	body, err := p.client.get(ctx, l.path, nil)
	if err != nil {
		return nil, err
	}
	seen := time.Now()
	first := l.objects == nil
	delta, err := l.diff(body)
	if err != nil {
		return nil, err
	}
	p.next[i] = time.Now().Add(p.rest(l.kind, time.Since(start)))
	if delta == nil {
		return nil, nil
	}
	if !first && (l.kind == "endpoint" || l.kind == "service") {
		fire(p.triggers)
	}
	e := events.New(delta)
	e.SeenNs = seen.UnixNano()
	return e, nil
}

func (p *poller) rest(kind string, took time.Duration) time.Duration {
	rest := p.interval
	switch {
	case kind == "config":
		rest = max(rest, configInterval)
	case kind != "endpoint" && p.streamed:
		rest *= streamedFactor
	}
	return max(rest, min(restFactor*took, maxRest))
}

func fire(triggers []sources.Trigger) {
	for _, t := range triggers {
		t.Fire()
	}
}
