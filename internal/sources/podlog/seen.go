package podlog

import "time"

// maxStamps bounds the memory for one second's lines; behind it, lines are told apart by their order only.
const maxStamps = 1 << 16

// seen knows which lines of a log were emitted, as far as that is needed to go on: the API can be asked for lines
// since a whole second only, so those of the last second come again.
type seen struct {
	last   int64 // stamp of the newest line, Unix nanoseconds
	second int64
	stamps map[int64]int // in that second: how many lines have the stamp
	all    bool          // stamps has every line of that second
}

// resumed stands where an earlier run ended, of which only the last line's stamp is known.
func resumed(last int64) *seen { return &seen{last: last, second: last / int64(time.Second)} }

// since is where to ask for the log from; ok is false for its beginning.
func (s *seen) since() (at time.Time, ok bool) { return time.Unix(s.second, 0).UTC(), s.last != 0 }

// note counts a line as emitted.
func (s *seen) note(stamp int64) {
	second := stamp / int64(time.Second)
	if second > s.second || s.last == 0 {
		s.second, s.all = second, true
		s.stamps = make(map[int64]int)
	}
	s.last = max(s.last, stamp)
	if second != s.second {
		return // before it: such a line is not asked for again
	}
	if len(s.stamps) >= maxStamps {
		s.all = false
	}
	if s.all {
		s.stamps[stamp]++
	}
}

// replay tells the lines of a stream that goes on from those that were emitted before it broke.
func (s *seen) replay() *replay {
	r := &replay{last: s.last, all: s.all, left: make(map[int64]int, len(s.stamps))}
	for k, n := range s.stamps {
		r.left[k] = n
	}
	return r
}

type replay struct {
	last  int64
	all   bool
	left  map[int64]int
	found bool // a line that was emitted came again, so the log has not lost any in between
}

// old says whether a line was emitted already.
func (r *replay) old(stamp int64) bool {
	known := stamp <= r.last
	if r.all {
		known = r.left[stamp] > 0
		if known {
			r.left[stamp]--
		}
	}
	r.found = r.found || known
	return known
}

// lost says, at the first new line, that what was emitted last is no longer there: lines may be missing between.
func (r *replay) lost() bool { return r.last != 0 && !r.found }
