package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"google.golang.org/protobuf/proto"
)

// Position is where a moment lies in a session.
type Position struct {
	Seq uint64 // of the last event at or before the moment
	Ns  int64  // the moment itself, Unix nanoseconds
}

// Position finds a moment. Its error says how the moment misses the session: before its start, after its end, no such
// mark or step.
func (s *Session) Position(ctx context.Context, m Moment) (Position, error) {
	h := s.Tape.Header()
	switch m.kind {
	case atEnd:
		_, last, err := s.Tape.Bounds()
		if err != nil || last == h.LastSeq {
			return Position{h.LastSeq, h.LastNs}, err
		}
		return s.seen(ctx, last) // of a torn tape: the end of what is left
	case atSeq:
		if m.seq < h.FirstSeq || m.seq > h.LastSeq {
			return Position{}, s.outside(m, m.seq < h.FirstSeq)
		}
		if _, last, err := s.Tape.Bounds(); err != nil || m.seq > last {
			return Position{}, errors.Join(err, s.torn(m))
		}
		return s.seen(ctx, m.seq)
	case atMark:
		return s.mark(ctx, m)
	case atStep:
		return s.step(ctx, m)
	}
	ns, err := s.time(m)
	if err != nil {
		return Position{}, err
	}
	if s.Tape.Torn() != nil {
		end, err := s.Position(ctx, Moment{})
		if err != nil || ns > end.Ns {
			return Position{}, errors.Join(err, s.torn(m))
		}
	}
	seq, err := s.Tape.SeqAt(ns)
	return Position{seq, ns}, err
}

// torn says that a moment lies in the part of the tape that is missing: what was known before is no answer.
func (s *Session) torn(m Moment) error {
	if s.Tape.Torn() == nil {
		return fmt.Errorf("moment %s: the tape has no such event", m)
	}
	return fmt.Errorf("moment %s is in the part of the tape that is missing; ask for one before, or pack the session again", m)
}

// StateAt folds the session up to a position.
func (s *Session) StateAt(ctx context.Context, at Position) (*projections.State, error) {
	return s.State(ctx, Moment{kind: atSeq, seq: at.Seq})
}

// seq is the position of the last event at or before the moment.
func (s *Session) seq(ctx context.Context, m Moment) (uint64, error) {
	p, err := s.Position(ctx, m)
	return p.Seq, err
}

func (s *Session) outside(m Moment, before bool) error {
	h, what := s.Tape.Header(), "after its end"
	if before {
		what = "before its start"
	}
	err := fmt.Errorf("moment %s is %s: the session is from %s (seq:%d) to %s (seq:%d)", m, what, clock(h.FirstNs), h.FirstSeq, clock(h.LastNs), h.LastSeq)
	return outsideError{err, before}
}

// outsideError says that a moment is before the session's start, else after its end.
type outsideError struct {
	error
	before bool
}

// time is the moment's time, inside the session.
func (s *Session) time(m Moment) (int64, error) {
	h := s.Tape.Header()
	var ns int64
	switch m.kind {
	case afterStart:
		ns = h.FirstNs + m.by.Nanoseconds()
	case beforeEnd:
		ns = h.LastNs - m.by.Nanoseconds()
	case atTime:
		ns = s.within(m, m.at)
	case atClock:
		at, err := s.onDay(m)
		if err != nil {
			return 0, err
		}
		ns = s.within(m, at)
	}
	if ns < h.FirstNs || ns > h.LastNs {
		return 0, s.outside(m, ns < h.FirstNs)
	}
	return ns, nil
}

// within is a written time. One that was written to the second or the millisecond in which the session starts is its
// start.
func (s *Session) within(m Moment, at time.Time) int64 {
	ns, first := at.UnixNano(), s.Tape.Header().FirstNs
	if ns < first && first-ns < m.by.Nanoseconds() {
		return first
	}
	return ns
}

// onDay puts a time of day on the day of the session (UTC) that has it; on the first one where none has.
func (s *Session) onDay(m Moment) (time.Time, error) {
	h := s.Tape.Header()
	midnight := time.Unix(0, h.FirstNs).UTC().Truncate(24 * time.Hour)
	first := midnight.Add(m.at.Sub(time.Date(m.at.Year(), m.at.Month(), m.at.Day(), 0, 0, 0, 0, time.UTC)))
	var found []string
	for at := first; at.UnixNano() <= h.LastNs; at = at.Add(24 * time.Hour) {
		if s.within(m, at) >= h.FirstNs {
			found = append(found, at.Format(time.RFC3339Nano))
			first = at
		}
	}
	if len(found) > 1 {
		return first, fmt.Errorf("moment %s is on %d days of the session: write one of %s", m, len(found), strings.Join(found, ", "))
	}
	return first, nil
}

// seen is the position of an event; of one that a disk lost, that of the event before it.
func (s *Session) seen(ctx context.Context, seq uint64) (Position, error) {
	var p Position
	for _, from := range []uint64{seq, 0} {
		err := s.Tape.Read(ctx, from, seq, func(r journal.Record) error {
			e, err := decode(r)
			p = Position{r.Seq, e.GetSeenNs()}
			return err
		})
		if err != nil || p.Seq > 0 {
			return p, err
		}
	}
	return p, fmt.Errorf("there is no event at or before seq:%d on the tape", seq)
}

// mark is the position of the last mark with that text.
func (s *Session) mark(ctx context.Context, m Moment) (Position, error) {
	marks, err := s.Marks(ctx)
	if err != nil {
		return Position{}, err
	}
	var texts []string
	for _, k := range slices.Backward(marks) {
		if k.Text == m.mark {
			return Position{k.Seq, k.SeenNs}, nil
		}
		texts = append(texts, k.Text)
	}
	slices.Reverse(texts)
	return Position{}, fmt.Errorf("mark %q is not in the session, which has the marks %q", m.mark, texts)
}

// Marks are all marks of the session.
func (s *Session) Marks(ctx context.Context) ([]projections.Mark, error) {
	st, err := s.State(ctx, Moment{})
	if err != nil {
		return nil, err
	}
	return st.Marks, nil
}

// step is the moment at which the file of a step of the profile first became complete.
func (s *Session) step(ctx context.Context, m Moment) (Position, error) {
	st := projections.NewState()
	var found Position
	err := s.Tape.Read(ctx, 0, ^uint64(0), func(r journal.Record) error {
		e, err := decode(r)
		if err != nil {
			return err
		}
		seen := e.SeenNs
		quiet := e.GetFlows() != nil || e.GetAgentEvents() != nil
		st.Apply(r.Seq, e)
		if !quiet && st.StepComplete(m.step) {
			found = Position{r.Seq, seen}
			return errFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errFound):
		return found, nil
	case err != nil:
		return found, err
	case st.Profile == nil:
		return found, errors.New("the session was recorded without a profile: it has no steps")
	case !slices.Contains(projections.Steps(), m.step):
		return found, fmt.Errorf("the profile %s has no step %d; its steps are %v", st.Profile.Name, m.step, projections.Steps())
	}
	return found, fmt.Errorf("the file of step %d was never complete", m.step)
}

// errFound ends a reading of the tape that has what it looked for.
var errFound = errors.New("found")

func decode(r journal.Record) (*eventpb.Event, error) {
	e := &eventpb.Event{}
	if err := proto.Unmarshal(r.Data, e); err != nil {
		return nil, fmt.Errorf("decode event at seq %d: %w", r.Seq, err)
	}
	return e, nil
}
