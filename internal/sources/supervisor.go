package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

const (
	firstPause = time.Second
	longPause  = 15 * time.Second
	// A source that ran this long starts over with a short pause.
	steady = time.Minute
)

// Supervise runs the sources until ctx ends and waits for them. A source that breaks is run again after a
// pause; its state and what it missed are recorded through its own emitter.
func Supervise(ctx context.Context, log *slog.Logger, emitter func(source string) events.Emit, list []Source) {
	var wg sync.WaitGroup
	for _, s := range list {
		k := &keeper{source: s, emit: emitter(s.Name()), log: log.With("source", s.Name())}
		wg.Go(func() { k.keep(ctx) })
	}
	wg.Wait()
}

// keeper keeps one source running.
type keeper struct {
	source Source
	emit   events.Emit
	log    *slog.Logger

	downSince time.Time // zero while it is up or has never been
	lastError string
}

func (k *keeper) keep(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		started := time.Now()
		err := k.run(ctx)
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		if time.Since(started) > steady {
			pause = firstPause
		}
		k.down(ctx, err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longPause)
	}
	// The journal outlives the sources, so that this is stored.
	_ = k.emit(context.WithoutCancel(ctx), events.New(&eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_STOPPED}))
}

// run is one run of the source. A source that panics on what it read must not end the others.
func (k *keeper) run(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return k.source.Run(ctx, k.emit, func() { k.up(ctx) })
}

func (k *keeper) up(ctx context.Context) {
	var list []*eventpb.Event
	if !k.downSince.IsZero() {
		list = append(list, events.New(&eventpb.Gap{
			FromNs: k.downSince.UnixNano(), ToNs: time.Now().UnixNano(),
			Reason: eventpb.GapReason_GAP_REASON_SOURCE_DOWN, Detail: k.lastError,
		}))
	}
	list = append(list, events.New(&eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_UP}))
	if k.emit(ctx, list...) == nil {
		k.downSince, k.lastError = time.Time{}, ""
		k.log.Info("up")
	}
}

// down records a break once: the same error again is no news.
func (k *keeper) down(ctx context.Context, err error) {
	if k.downSince.IsZero() {
		k.downSince = time.Now()
	}
	if err.Error() == k.lastError {
		return
	}
	k.lastError = err.Error()
	k.log.Warn("down", "error", err)
	_ = k.emit(ctx, events.New(&eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN, Error: k.lastError}))
}
