package host

import "time"

const (
	// maxSockets is how many sockets of one pod an event holds.
	maxSockets = 4096
	// Reading a pod's sockets costs up to 3 ms, since the kernel walks the table of the whole machine. So it is
	// done at once when counters say that there are more or fewer; after readSoon when some came and went (a
	// readiness probe does that each second); after readLazily when something was carried, which a change from
	// one closing state to the next needs; and after readAnyway.
	readSoon, readLazily, readAnyway = 3 * time.Second, 10 * time.Second, time.Minute
	// Listeners and TIME_WAIT are counted in files of their own, which are read that often.
	countMore = 2 * time.Second
	// What reading may cost: readShare of one core, divided among the pods. A pod may save up readCredit, so that
	// a quiet one is read at once when something happens, and a busy one at a steady pace.
	readShare, readCredit = 0.002, 20 * time.Millisecond
	// A pod with many sockets is read more rarely, so that it does not fill the tape.
	readPerSocket = time.Millisecond
	// Pods are looked at in the first rhythm while something happens to them and for calmAfter then, and in the
	// second afterwards.
	stirredEvery, calmEvery, calmAfter = 500 * time.Millisecond, time.Second, 30 * time.Second
	// A pod without a process is searched for again, more and more rarely until the cluster says more of it: up to
	// scanLast, or scanRest where only others than the chosen ones have none.
	scanFirst, scanLast, scanRest = 250 * time.Millisecond, 10 * time.Second, time.Minute
)

// Pods that are neither named nor selected have calmer rhythms, so that a node full of them costs little more.
const (
	// Their counters are read in turn, each that often, and what they call for is read restPatience times later
	// than of a chosen pod, unless there are more or fewer connections.
	countRest, restPatience = 5 * time.Second, 6
	// What reading all of them together may cost once each has been read, how much may be saved up, and how many are
	// read in one look, so that the chosen ones need not wait.
	restShare, restCredit, restReads = 0.001, 40 * time.Millisecond, 2
)

// due are the pods that are looked at now: the chosen ones, then others in turn.
func (p *pods) due(now time.Time) (list []*pod) {
	var rest []*pod
	for _, one := range p.list {
		if one.chosen {
			list = append(list, one)
		} else {
			rest = append(rest, one)
		}
	}
	turns := int(float64(len(rest)) * float64(now.Sub(p.turned)) / float64(countRest))
	switch {
	case turns == 0:
		return list
	case turns >= len(rest):
		turns, p.turned = len(rest), now
	default:
		p.turned = p.turned.Add(countRest * time.Duration(turns) / time.Duration(len(rest)))
	}
	for range turns {
		p.turn++
		list = append(list, rest[p.turn%len(rest)])
	}
	return list
}

// count reads the pods' counters, and forgets processes that are gone. Whether a process is still the same one is
// only asked when its counters moved.
func (p *pods) count(due []*pod, now time.Time) {
	all := now.Sub(p.counted) >= countMore
	if all {
		p.counted = now
	}
	for _, one := range due {
		if one.proc.pid == 0 {
			continue
		}
		before := one.counters
		readable := one.counters.read(p.cfg.Proc, one.proc.pid)
		if all || !one.chosen {
			one.counters.readMore(p.cfg.Proc, one.proc.pid)
		}
		if (!readable || one.counters != before) && !one.proc.alive(p.cfg.Proc) {
			p.lose(one, now)
		}
	}
}

// earn gives credit for the time since the last look: to each chosen pod its part, to the others together.
func (p *pods) earn(now time.Time) {
	if p.earned.IsZero() {
		p.rest = restCredit
	} else {
		since, chosen := float64(now.Sub(p.earned)), 0
		for _, one := range p.list {
			if one.chosen {
				chosen++
			}
		}
		for _, one := range p.list {
			if one.chosen {
				one.credit = min(one.credit+time.Duration(readShare*since/float64(chosen)), readCredit)
			}
		}
		p.rest = min(p.rest+time.Duration(restShare*since), restCredit)
	}
	p.earned = now
}

// calls says whether a pod's sockets are to be read now, and can be paid for.
func (p *pods) calls(one *pod, now time.Time) bool {
	ago := now.Sub(one.read)
	if one.chosen {
		return !now.Before(one.next) && one.credit > 0 && one.counters.call(one.then, ago)
	}
	paid := one.read.IsZero() || p.rest > 0
	return !now.Before(one.next) && p.reads < restReads && paid && one.counters.call(one.then, ago/restPatience)
}

func (p *pods) pay(one *pod, cost time.Duration) {
	if one.chosen {
		one.credit -= cost
		return
	}
	p.reads++
	if !one.read.IsZero() {
		p.rest -= cost
	}
}
