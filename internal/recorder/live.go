package recorder

import (
	"context"
	"log/slog"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// coalesce bounds how often files are rendered: a burst of events is one render.
const coalesce = 20 * time.Millisecond

// live folds the journal as it grows and keeps the output folder true.
type live struct {
	journal *journal.Journal
	state   *projections.State
	folder  *projections.Folder
	log     *slog.Logger
	shown   func([]projections.File, *projections.State) // after each render; may be nil
	keys    *keeper

	failing string // the write error that was said already
}

// run follows the journal until it has folded the position that stopAt gives, or ctx ends.
func (l *live) run(ctx context.Context, stopAt <-chan uint64) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan []journal.Record, 16)
	read := make(chan error, 1)
	go func() {
		defer close(batches)
		read <- l.journal.Follow(ctx, l.state.Seq+1, func(b []journal.Record) error {
			select {
			case batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	l.loop(batches, stopAt)
	stopped := ctx.Err() == nil
	stop()
	for range batches {
	}
	if err := <-read; err != nil && !stopped {
		return err
	}
	return nil
}

func (l *live) loop(batches <-chan []journal.Record, stopAt <-chan uint64) {
	due := time.After(0)
	var last time.Time
	end := ^uint64(0)
	for l.state.Seq < end {
		select {
		case batch, ok := <-batches:
			if !ok {
				return
			}
			l.fold(batch)
			if due == nil {
				due = time.After(max(0, coalesce-time.Since(last)))
			}
		case <-due:
			due, last = nil, time.Now()
			if !l.render() {
				due = time.After(time.Second)
			}
		case end = <-stopAt:
		}
	}
	l.render()
	l.keys.last(l.state)
}

func (l *live) fold(batch []journal.Record) {
	for _, r := range batch {
		if err := l.state.ApplyRecord(r.Seq, r.Data); err != nil {
			l.log.Error("event left out", "error", err)
			continue
		}
		l.keys.folded(r, l.state)
	}
}

// render writes what changed; false when some of it could not be written, which is said once.
func (l *live) render() bool {
	files := l.state.Files()
	if l.shown != nil {
		l.shown(files, l.state)
	}
	err := l.folder.Write(files)
	switch {
	case err == nil && l.failing != "":
		l.failing = ""
		l.log.Info("output folder can be written again")
	case err != nil && err.Error() != l.failing:
		l.failing = err.Error()
		l.log.Error("output folder cannot be written; the journal goes on", "error", err)
	}
	return err == nil
}
