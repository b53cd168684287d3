package journal

import "context"

// request is what one call hands to the writer.
type request struct {
	items []item
	left  int           // not acknowledged yet; the writer's
	done  chan struct{} // closed when all are stored
}

// queueUp hands items to the writer. What is queued is stored, unless the journal is closed while it cannot be
// written.
func (j *Journal) queueUp(ctx context.Context, items []item) (*request, error) {
	r := &request{items: items, left: len(items), done: make(chan struct{})}
	select {
	case <-j.closing: // said first: a select would choose at random
		return nil, ErrClosed
	default:
	}
	select {
	case j.queue <- r:
		return r, nil
	case <-j.closing:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait returns nil when r is stored.
func (j *Journal) wait(ctx context.Context, r *request) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-j.stopped:
		select {
		case <-r.done:
			return nil
		default:
			return ErrClosed
		}
	}
}
