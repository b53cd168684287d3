package journal

import (
	"fmt"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// stepLeast is by how much the wall clock must have been set to be told. Slewing does not count: it moves the
// monotonic clock as well.
const stepLeast = 500 * time.Millisecond

// clock notices when the wall clock is set. Events keep the times that it showed, and their order is the journal's:
// but times before and after are then not of one scale, which is told once.
type clock struct {
	read       func() (wall, mono int64) // nanoseconds, at one instant
	wall, mono int64                     // when it was looked at last
}

func newClock(read func() (wall, mono int64)) *clock {
	c := &clock{read: read}
	c.wall, c.mono = read()
	return c
}

// systemClock reads the monotonic clock from the moment of its call on.
func systemClock() func() (wall, mono int64) {
	start := time.Now()
	return func() (wall, mono int64) {
		now := time.Now()
		return now.UnixNano(), int64(now.Sub(start))
	}
}

// step returns what the clock shows, and what it would show had it not been set since the last look.
func (c *clock) step() (shows, would int64) {
	wall, mono := c.read()
	would = c.wall + mono - c.mono
	c.wall, c.mono = wall, mono
	return wall, would
}

// sayStep makes a step the next event. It is called while nothing is pending.
func (w *writer) sayStep() {
	shows, would := w.clock.step()
	by := time.Duration(shows - would)
	if by.Abs() < stepLeast {
		return
	}
	w.log.Warn("the wall clock was set", "by", by)
	w.pending = append(w.pending, pending{item: w.gap(false, &eventpb.Gap{
		FromNs: min(shows, would), ToNs: max(shows, would), Reason: eventpb.GapReason_GAP_REASON_CLOCK,
		Detail: fmt.Sprintf("the wall clock was set by %v, or the machine slept", by.Round(time.Millisecond)),
	})})
}
