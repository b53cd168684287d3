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
	board   *board // nil while nobody can ask

	renderer *projections.Renderer
	tick     chan<- struct{} // asks for a tick; nil while a tape is played, which has its own
	failing  string          // the write error that was said already
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
		ripe, stopRipe := l.ripe()
		select {
		case batch, ok := <-batches:
			if !ok {
				return
			}
			l.fold(batch)
			if soon := coalesce - time.Since(last); due == nil || soon < coalesce {
				due = time.After(max(0, soon))
			}
		case <-due:
			last = time.Now()
			due = l.render()
		case <-ripe:
			select {
			case l.tick <- struct{}{}:
			default: // asked already
			}
		case end = <-stopAt:
		}
		stopRipe()
	}
	l.write(l.renderer.Files(l.state))
	l.keys.last(l.state)
}

// ripe fires when a finding has lasted long enough to be told, if nothing else happens until then.
func (l *live) ripe() (<-chan time.Time, func()) {
	due, ok := l.state.NextDue()
	if !ok || l.tick == nil {
		return nil, func() {}
	}
	timer := time.NewTimer(max(tickApart, time.Until(time.Unix(0, due))))
	return timer.C, func() { timer.Stop() }
}

// tickApart is the least time between ticks: one that is told is folded soon, and not at once.
const tickApart = 100 * time.Millisecond

func (l *live) fold(batch []journal.Record) {
	for _, r := range batch {
		if err := l.state.ApplyRecord(r.Seq, r.Data); err != nil {
			l.log.Error("event left out", "error", err)
			continue
		}
		for _, f := range l.state.News() {
			tellFinding(l.log, f)
		}
		l.keys.folded(r, l.state)
	}
	if l.board != nil {
		l.board.count(batch)
	}
}

// render makes the files that are due and writes what changed. It returns when to do so again, nil for with the next event.
func (l *live) render() <-chan time.Time {
	files, next := l.renderer.Live(l.state)
	switch ok := l.write(files); {
	case !ok:
		return time.After(time.Second)
	case !next.IsZero():
		return time.After(time.Until(next))
	}
	return nil
}

// write is false when some of the files could not be written, which is said once.
func (l *live) write(files []projections.File) bool {
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
	if l.board != nil {
		l.board.show(files, l.state, l.failing)
	}
	return err == nil
}
