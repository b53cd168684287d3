package bpfmap

import "time"

// pace says how often maps are polled.
type pace struct {
	min, max time.Duration
	// factor keeps polling cheap: the time between polls is at least what a poll costs times this.
	factor int
	// gap is the least time between polls that triggers ask for; 0 is a tenth of the usual one, up to pressedGap.
	gap time.Duration
	// quiet is how much less often a map is polled in which the last polls saw no change; 0 is as often.
	quiet int
}

// Polls that a trigger asks for follow on each other at least that many times the cost of one, and a tenth of the
// usual time, up to pressedGap.
const (
	pressed    = 15
	pressedGap = 100 * time.Millisecond
)

// schedule says when the next poll is due.
type schedule struct {
	pace
	last, due time.Time
	cost      time.Duration
	same      int // polls in a row that saw no change
}

// calmAfter is how many polls without a change make a map a quiet one.
const calmAfter = 3

func (s *schedule) slower() time.Duration {
	if s.quiet > 0 && s.same >= calmAfter {
		return time.Duration(s.quiet)
	}
	return 1
}

func (s *schedule) interval() time.Duration {
	return max(s.min*s.slower(), min(s.max, s.cost*time.Duration(s.factor)))
}

// done notes a poll that started at start, took cost, and saw a change or not.
func (s *schedule) done(start time.Time, cost time.Duration, changed bool) {
	if s.same++; changed {
		s.same = 0
	}
	if s.cost == 0 {
		s.cost = cost
	}
	s.cost = (s.cost + cost) / 2
	s.last = start
	s.due = start.Add(s.interval())
}

// press moves the next poll forward, to now if the last is not too near.
func (s *schedule) press(now time.Time) {
	gap := min(s.interval()/10, pressedGap)
	if s.gap > 0 {
		gap = s.gap * s.slower()
	}
	soonest := s.last.Add(max(gap, s.cost*pressed))
	if soonest.Before(now) {
		soonest = now
	}
	if soonest.Before(s.due) {
		s.due = soonest
	}
}

// late says since when a poll that starts now is late: so much later than it was due that something held it up.
func (s *schedule) late(now time.Time) (since time.Time, late bool) {
	if s.last.IsZero() {
		return time.Time{}, false
	}
	return s.last, now.Sub(s.due) > max(time.Second, s.interval())
}
