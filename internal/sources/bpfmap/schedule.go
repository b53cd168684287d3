package bpfmap

import "time"

// pace says how often maps are polled.
type pace struct {
	min, max time.Duration
	// factor keeps polling cheap: the time between polls is at least what a poll costs times this.
	factor int
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
}

func (s *schedule) interval() time.Duration {
	return max(s.min, min(s.max, s.cost*time.Duration(s.factor)))
}

// done notes a poll that started at start and took cost.
func (s *schedule) done(start time.Time, cost time.Duration) {
	if s.cost == 0 {
		s.cost = cost
	}
	s.cost = (s.cost + cost) / 2
	s.last = start
	s.due = start.Add(s.interval())
}

// press moves the next poll forward, to now if the last is not too near.
func (s *schedule) press(now time.Time) {
	soonest := s.last.Add(max(min(s.interval()/10, pressedGap), s.cost*pressed))
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
