package journal

import (
	"context"
	"fmt"
)

// Follow calls fn with the records from position from on, in order and as they are stored, in batches of what is
// there. It starts at the first that is left when older ones were retired. It returns nil when ctx ends, ErrClosed
// when the journal does, fn's error, or ErrRegressed when the journal ends before the next record: from is past its
// end, or it lost its tail meanwhile.
func (j *Journal) Follow(ctx context.Context, from uint64, fn func([]Record) error) error {
	next := max(from, 1)
	start, _ := j.tail.look()
	for {
		now, changed := j.tail.look()
		switch {
		case next > now.last+1, now.regressions != start.regressions:
			return fmt.Errorf("follow from %d, last is %d: %w", next, now.last, ErrRegressed)
		case ctx.Err() != nil:
			return nil
		case next <= now.last && now.from(next) != nil:
			if err := fn(now.from(next)); err != nil {
				return err
			}
			next = now.last + 1
			continue
		case next <= now.last && now.store != nil:
			var err error
			if next, err = j.deliver(ctx, now, next, now.last, fn); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		case now.closed:
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Read calls fn with each record from position from to position to, both included; a to of 0, or past the end,
// means the last that is stored now.
func (j *Journal) Read(ctx context.Context, from, to uint64, fn func(Record) error) error {
	now, changed := j.tail.look()
	if to == 0 || to > now.last {
		to = now.last
	}
	for next := max(from, 1); next <= to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if now.store == nil && now.closed {
			return ErrClosed
		}
		if now.store == nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
		} else {
			var err error
			if next, err = j.deliver(ctx, now, next, to, each(fn)); err != nil {
				return err
			}
		}
		now, changed = j.tail.look()
	}
	return nil
}

func each(fn func(Record) error) func([]Record) error {
	return func(recs []Record) error {
		for _, r := range recs {
			if err := fn(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// deliver hands over one fetch and returns where to go on. When the store went away under it, that is at the same
// place.
func (j *Journal) deliver(ctx context.Context, now tailState, next, to uint64, fn func([]Record) error) (uint64, error) {
	recs, err := now.store.fetch(ctx, next, to)
	after := next + uint64(len(recs))
	if err == nil && !whole(recs, next) {
		recs, after, err = j.fillHoles(ctx, now.store, next, to, recs)
	}
	if err != nil {
		if again, _ := j.tail.look(); again.store != now.store && !again.closed {
			return next, nil
		}
		return next, err
	}
	if len(recs) == 0 {
		return to + 1, nil // what was there is retired
	}
	return after, fn(recs)
}
