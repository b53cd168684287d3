package bpfmap

import "time"

// pace says how often maps are polled.
type pace struct {
	min, max time.Duration
	// factor keeps polling cheap: the time between polls is at least what a poll costs times this.
	factor int
	// gap is the least time between polls that triggers ask for one after the other; the first after a calm comes at
	// once. 0 is no such limit.
	gap time.Duration
	// quiet is how many times less often a map is polled, at most, whose polls see no change; 0 is as often.
	quiet int
}

const (
	// Polls that a trigger asks for come at least that many times the cost of one after the last,
	pressed = 15
	// and a tenth of the usual time, up to pressedGap.
	pressedGap = 100 * time.Millisecond
	// calmAfter is how many polls without a change double the time between them.
	calmAfter = 3
	// quietGap is how many gaps lie between asked polls of a quiet map, at most.
	quietGap = 4
	// early is the part of its time by which a poll may come early, so that one waking does for several maps.
	early = 8
)

// schedule says when the next poll is due.
type schedule struct {
	pace
	last, due time.Time
	cost      time.Duration
	same      int       // polls in a row that saw no change
	asked     bool      // a trigger asked for the next poll
	answered  time.Time // when a poll that a trigger asked for began last
}

// slower is how many times less often than min the map is polled now.
func (s *schedule) slower() time.Duration {
	n := 1
	for same := s.same; same >= calmAfter && n < s.quiet; same -= calmAfter {
		n *= 2
	}
	return time.Duration(n)
}

func (s *schedule) interval() time.Duration {
	return max(min(s.max, max(s.min*s.slower(), s.cost*time.Duration(s.factor))), s.min)
}

// ready says that the next poll may be made at now.
func (s *schedule) ready(now time.Time) bool {
	return !s.due.After(now.Add(s.interval() / early))
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
	if s.asked {
		s.asked, s.answered = false, start
	}
	s.due = start.Add(s.interval())
}

// press moves the next poll forward, to now if the last is not too near.
func (s *schedule) press(now time.Time) {
	s.asked = true
	soonest := s.last.Add(max(min(s.interval()/10, pressedGap), s.cost*pressed))
	if again := s.answered.Add(s.gap * min(s.slower(), quietGap)); again.After(soonest) {
		soonest = again
	}
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
