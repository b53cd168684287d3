package probe

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

const (
	// debounce is how long a subject that changed is left alone: changes come in bursts.
	debounce = 100 * time.Millisecond
	// firstRetry is the wait after a request without the answer that is hoped for; it doubles up to the interval.
	firstRetry = 200 * time.Millisecond
)

// probe is one request to make again and again.
type probe struct {
	name    string
	subject func() (subject, bool)
	// request asks once. Its error says that nothing was asked; a request that failed is a result.
	request func(context.Context, subject) (*eventpb.ProbeResult, error)
	// settled says that the result will hardly change by itself.
	settled func(*eventpb.ProbeResult) bool
}

// subject is what is asked, comparable.
type subject struct {
	target                    string // URL
	namespace, pod, container string // where curl runs; empty for the node
	// version changes with everything that may change the answer.
	version string
}

// prober runs one probe.
type prober struct {
	probe
	cluster   sources.Cluster
	interval  time.Duration
	emit      events.Emit
	log       *slog.Logger
	evaluated func() // called when there is a result or nothing to ask

	broken time.Time // since when nothing could be asked
}

// run asks while there is a subject, until ctx ends (nil) or emit fails.
func (p *prober) run(ctx context.Context) error {
	for {
		s, ok := p.await(ctx)
		if !ok {
			return nil
		}
		if err := p.keep(ctx, s); err != nil {
			return err
		}
		select {
		case <-time.After(debounce):
		case <-ctx.Done():
			return nil
		}
	}
}

// await returns the subject as soon as there is one; false when ctx has ended.
func (p *prober) await(ctx context.Context) (subject, bool) {
	for ctx.Err() == nil {
		changed := p.cluster.Changed()
		if s, ok := p.subject(); ok {
			return s, true
		}
		p.broken = time.Time{}
		p.evaluated()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return subject{}, false
}

// keep asks s until it changes or goes. A request that is under way then is given up: its answer is of no use.
func (p *prober) keep(parent context.Context, s subject) error {
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.guard(ctx, s)
		cancel()
	}()
	defer func() { cancel(); <-done }()

	for pause := firstRetry; ; pause = min(2*pause, p.interval) {
		list, settled := p.once(ctx, s)
		if ctx.Err() != nil {
			return nil
		}
		if len(list) > 0 {
			if err := p.emit(parent, list...); err != nil {
				return err
			}
		}
		p.evaluated()
		wait := pause
		if settled {
			wait, pause = p.interval, firstRetry/2
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// guard returns when the subject is another or ctx ends.
func (p *prober) guard(ctx context.Context, s subject) {
	for {
		changed := p.cluster.Changed()
		if now, ok := p.subject(); !ok || now != s {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// once asks and returns the events of it. What could not be asked is a gap, told when it begins and when it ends.
func (p *prober) once(ctx context.Context, s subject) (list []*eventpb.Event, settled bool) {
	started := time.Now()
	result, cause := p.request(ctx, s)
	if ctx.Err() != nil {
		return nil, false
	}
	switch {
	case cause == nil && !p.broken.IsZero():
		list = append(list, p.gap(p.broken, "requests could not be made"))
		p.broken = time.Time{}
	case cause != nil && p.broken.IsZero():
		p.log.Warn("request could not be made", "error", cause)
		list = append(list, p.gap(started, fmt.Sprintf("request could not be made: %v", cause)))
		p.broken = started
	}
	if cause == nil {
		result.Name = p.name
		settled = p.settled(result)
		list = append(list, events.New(result))
	}
	return list, settled
}

func (p *prober) gap(from time.Time, detail string) *eventpb.Event {
	return events.New(&eventpb.Gap{
		FromNs: from.UnixNano(), ToNs: time.Now().UnixNano(),
		Reason: eventpb.GapReason_GAP_REASON_LATE, Detail: p.name + ": " + detail,
	})
}
