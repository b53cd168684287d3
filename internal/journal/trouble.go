package journal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
)

// trouble is a time in which the journal could not be written.
type trouble struct {
	since time.Time
	cause error
	lost  uint64 // acknowledged events that the stream no longer has
	tries int
	gap   string // id of the gap made last
}

// recover waits until the stream answers again and sets right what is pending. The first try asks the stream as
// it is, since a refusal may be passing; later ones start the server anew, because after a write error it stays
// closed. Its error is the context's.
func (w *writer) recover(ctx context.Context, cause error) error {
	if w.trouble == nil {
		w.trouble = w.newTrouble(cause)
		w.log.Warn("journal cannot be written; sources wait", "error", w.trouble.cause)
		w.troubled(w.trouble.cause)
	}
	for {
		t := w.trouble
		if err := sleep(ctx, min(retryFirst<<min(t.tries, 10), retryMost)); err != nil {
			return err
		}
		t.tries++
		if w.resume(ctx) {
			return nil
		}
	}
}

// newTrouble looks for a better cause than an answer that did not come.
func (w *writer) newTrouble(cause error) *trouble {
	t := &trouble{since: time.Now(), cause: cause}
	if err := w.tryDisk(); err != nil {
		t.cause, t.tries = err, 1
	}
	return t
}

func (w *writer) resume(ctx context.Context) bool {
	if w.trouble.tries > 1 {
		s, err := w.reopen()
		if err != nil {
			w.trouble.cause = err
			return false
		}
		w.stream = s
	}
	last, err := w.stream.last(ctx)
	if err != nil {
		w.trouble.cause = err
		return false
	}
	w.reconcile(last)
	return true
}

// reconcile finds out what of the pending events is stored although it was not acknowledged. Nobody else writes,
// and an event is accepted at its own position only, so what is past base is the first of them.
func (w *writer) reconcile(last uint64) {
	if last < w.base {
		w.trouble.lost += w.base - last
		w.log.Error("journal lost events that it had acknowledged", "count", w.base-last, "last", last)
		w.base = last
		w.regressed(last)
	}
	w.acknowledged(int(min(last-w.base, uint64(len(w.pending)))))
	w.base = last
	w.putGap()
}

// putGap makes the gap the next event to be stored, behind other gaps of the writer's own that wait in front. One that
// is not stored yet is made anew under its old id, to end now.
func (w *writer) putGap() {
	t, at := w.trouble, 0
	for at < len(w.pending) && w.pending[at].req == nil && w.pending[at].id != t.gap {
		at++
	}
	again := at < len(w.pending) && w.pending[at].req == nil
	detail := fmt.Sprintf("journal could not be written: %v", t.cause)
	g := pending{item: w.gap(again, &eventpb.Gap{FromNs: t.since.UnixNano(), Count: t.lost, Detail: detail})}
	t.gap = g.id
	if again {
		w.pending[at] = g
		return
	}
	w.pending = slices.Insert(w.pending, at, g)
}

// recovered is called when a publish was stored whole.
func (w *writer) recovered() {
	if t := w.trouble; t != nil {
		w.log.Info("journal can be written again", "after", time.Since(t.since).Round(time.Millisecond))
		w.trouble = nil
		w.troubled(nil)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
