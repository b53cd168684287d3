package replay

import (
	"context"
	"errors"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// Instant is the speed that does not wait.
const Instant = 0

// coalesce bounds how often files are written while events come faster than that, as in a recording.
const coalesce = 20 * time.Millisecond

// ErrStopped says that EachChange ended the play before its end.
var ErrStopped = errors.New("stopped before the end")

// Play is how a session is played.
type Play struct {
	Speed     float64       // 2 is twice as fast as it was recorded; Instant does not wait
	IdleLimit time.Duration // longest wait between two events, after Speed; 0 for none

	// Show gets the files of a moment, and from where they are.
	Show func([]projections.File, *projections.State) error
	// EachChange, when it is not nil, is called instead of waiting: after each event that changed a file other than
	// session.json, with what changed and after Show. It returns false to end the play there,
	// with ErrStopped.
	EachChange func(*eventpb.Event, *projections.State, []Change) (bool, error)
}

// Play plays the session from one position to another: the files show what was known at from, and then change as they
// changed when it was recorded. It ends with the files of to, whatever the speed.
func (s *Session) Play(ctx context.Context, from, to Position, p Play) error {
	st, err := s.StateAt(ctx, from)
	if err != nil {
		return err
	}
	r := player{Play: p, state: st, firstNs: from.Ns, dirty: true}
	if err := r.show(); err != nil {
		return err
	}
	r.started = time.Now()
	if to.Seq > from.Seq {
		err = s.Tape.Read(ctx, from.Seq+1, to.Seq, func(rec journal.Record) error { return r.record(ctx, rec) })
		if err != nil {
			return err
		}
	}
	return r.show()
}

type player struct {
	Play
	state   *projections.State
	firstNs int64
	started time.Time // when firstNs is played
	shown   time.Time
	dirty   bool // events were folded that are not shown
	files   []projections.File
}

func (p *player) record(ctx context.Context, r journal.Record) error {
	e, err := decode(r)
	if err != nil {
		return err
	}
	if p.EachChange == nil {
		if err := p.wait(ctx, e.SeenNs); err != nil {
			return err
		}
	}
	p.state.Apply(r.Seq, e)
	p.dirty = true
	if p.EachChange != nil {
		return p.step(e)
	}
	return nil
}

// wait lets time pass until an event is due. What is known before is shown first.
func (p *player) wait(ctx context.Context, seenNs int64) error {
	if p.Speed <= Instant {
		return ctx.Err()
	}
	due := p.started.Add(time.Duration(float64(seenNs-p.firstNs) / p.Speed))
	wait := time.Until(due)
	if p.IdleLimit > 0 && wait > p.IdleLimit {
		p.started = p.started.Add(p.IdleLimit - wait)
		wait = p.IdleLimit
	}
	if wait <= 0 {
		if time.Since(p.shown) < coalesce {
			return ctx.Err()
		}
		return p.show()
	}
	if err := p.show(); err != nil {
		return err
	}
	// Writing took time.
	t := time.NewTimer(time.Until(p.started.Add(time.Duration(float64(seenNs-p.firstNs) / p.Speed))))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *player) show() error {
	if !p.dirty {
		return nil
	}
	p.files, p.dirty, p.shown = p.state.Files(), false, time.Now()
	return p.Show(p.files, p.state)
}

// step shows one event's changes and asks whether to go on.
func (p *player) step(e *eventpb.Event) error {
	before := p.files
	files := p.state.Files()
	changed := CompareFiles(withoutSession(before), withoutSession(files))
	if len(changed) == 0 {
		return nil
	}
	if err := p.show(); err != nil {
		return err
	}
	more, err := p.EachChange(e, p.state, changed)
	if err == nil && !more {
		err = ErrStopped
	}
	return err
}

func withoutSession(files []projections.File) []projections.File {
	var list []projections.File
	for _, f := range files {
		if f.Name != "session.json" {
			list = append(list, f)
		}
	}
	return list
}
