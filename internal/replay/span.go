package replay

import (
	"context"
	"errors"
	"fmt"
)

// Span gives the positions from since to until, both included, where nil is the start or the end. A moment of a clock
// takes in all that was seen from it on, or until it. A span that begins before the session or ends after it is cut;
// one that has nothing of the session is an error.
func (s *Session) Span(ctx context.Context, since, until *Moment) (from, to uint64, err error) {
	from, to, err = s.Tape.Bounds()
	if err == nil && since != nil {
		from, err = s.spanStart(ctx, *since, from)
	}
	if err == nil && until != nil {
		to, err = s.spanEnd(ctx, *until, to)
	}
	if err == nil && from > to && since != nil {
		end := Moment{}
		if until != nil {
			end = *until
		}
		err = fmt.Errorf("nothing was seen between %s and %s", since, end)
	}
	return from, to, err
}

func (s *Session) spanStart(ctx context.Context, m Moment, first uint64) (uint64, error) {
	p, err := s.Position(ctx, m)
	var out outsideError
	switch {
	case errors.As(err, &out) && out.before:
		return first, nil
	case err != nil || m.kind == atSeq || m.kind == atMark || m.kind == atStep || m.kind == atEnd:
		return p.Seq, err
	}
	before, err := s.Tape.SeqAt(p.Ns - 1)
	return before + 1, err
}

func (s *Session) spanEnd(ctx context.Context, m Moment, last uint64) (uint64, error) {
	p, err := s.Position(ctx, m)
	var out outsideError
	if errors.As(err, &out) && !out.before {
		return last, nil
	}
	return p.Seq, err
}
