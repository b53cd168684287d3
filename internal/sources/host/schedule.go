package host

import (
	"context"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// lateAfter is how much later than planned a look may be before it counts as a gap.
const lateAfter = 2 * time.Second

// looker looks at one topic and adds it to out when it is not as it was.
type looker interface {
	look(ctx context.Context, out *eventpb.HostState) error
}

// paced is a looker that knows itself how long may pass until the next look.
type paced interface{ every() time.Duration }

// topic says when a looker looks: after every at the latest, apart from each other at least, and never so often
// that looking costs more than share of one core.
type topic struct {
	name  string
	every time.Duration
	apart time.Duration
	share float64
	looker

	due    time.Time // the zero time: at once
	soon   time.Time // the earliest next look
	looked time.Time // the last one
}

// ring asks for a look after delay, or as soon after that as the topic's pace allows.
func (t *topic) ring(now time.Time, delay time.Duration) {
	at := now.Add(delay)
	if at.Before(t.soon) {
		at = t.soon
	}
	if at.Before(t.due) {
		t.due = at
	}
}

// hurry makes the topic due now, whatever its pace.
func (t *topic) hurry(now time.Time) {
	if now.Before(t.due) {
		t.due = now
	}
}

// run looks if it is time, and returns the gap that a late look leaves.
func (t *topic) run(ctx context.Context, out *eventpb.HostState) (*eventpb.Gap, error) {
	start := time.Now()
	if start.Before(t.due) {
		return nil, nil
	}
	gap := t.gap(start)
	if err := t.look(ctx, out); err != nil {
		return nil, err
	}
	now := time.Now()
	cost := now.Sub(start)
	t.looked = now
	t.soon = now.Add(max(t.apart, time.Duration(float64(cost)/t.share)))
	t.due = now.Add(t.every)
	if p, ok := t.looker.(paced); ok {
		t.due = now.Add(p.every())
	}
	if t.due.Before(t.soon) {
		t.due = t.soon
	}
	return gap, nil
}

// gap is the time in which a look was due and was not made: the machine slept or the journal blocked.
func (t *topic) gap(now time.Time) *eventpb.Gap {
	if t.looked.IsZero() || now.Sub(t.due) < lateAfter {
		return nil
	}
	return &eventpb.Gap{
		FromNs: t.looked.UnixNano(),
		ToNs:   now.UnixNano(),
		Reason: eventpb.GapReason_GAP_REASON_LATE,
		Detail: t.name + " were looked at " + now.Sub(t.due).Round(time.Millisecond).String() + " late",
	}
}
