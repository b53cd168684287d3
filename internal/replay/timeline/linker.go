package timeline

import (
	"slices"
	"strings"
	"time"
)

const (
	// What comes later than this after newer things was stored too late to be put in its place.
	window = 2 * time.Second
	// A run of failures is over when this long none came and something succeeded.
	quiet = 1500 * time.Millisecond
	// Causes are forgotten when there are more than this.
	maxLinks = 1 << 18
)

// linker takes facts in order of time, names their causes and measures convergence.
type linker struct {
	row     func(Row)
	filter  *Filter
	links   map[string]Cause // service, blank, name of the fact
	edges   map[use]*edges
	figures map[string]*figures
	runs    map[string]*run
	writing map[string]bool // Services that the agent is writing
	now     int64
}

// run is a run of failures of one kind.
type run struct {
	first, last int64
	seq         uint64 // of the first
	count       int
	told        map[string]bool // what has a row already
	okay        *Row            // the first success after the last failure
}

func newLinker(filter *Filter, row func(Row)) *linker {
	return &linker{row: row, filter: filter, links: map[string]Cause{}, edges: map[use]*edges{}, figures: map[string]*figures{}, runs: map[string]*run{}, writing: map[string]bool{}}
}

func (l *linker) take(f fact) {
	l.now = max(l.now, f.TimeNs)
	l.endRuns(false)
	if f.Kind == KindGap {
		l.broken(f.Subject)
	}
	if f.edge != noEdge {
		for _, s := range f.Services {
			l.edge(s, &f)
		}
	}
	if f.silent {
		l.writes(&f)
		return
	}
	switch {
	case f.unsure:
		f.Text += " (found in a new list: when it happened is not known)"
	default:
		f.Cause = l.cause(&f)
		if f.polled && f.Cause == nil && l.busy(&f) {
			f.Text += " (read while the agent was writing)"
		}
		l.link(&f)
	}
	switch {
	case f.okay:
		l.succeeded(&f)
		return
	case f.failed && !l.failed(&f):
		return
	}
	l.row(f.Row)
}

func (l *linker) writes(f *fact) {
	for _, s := range f.Services {
		switch {
		case f.writing:
			l.writing[s] = true
		case f.written:
			delete(l.writing, s)
		}
	}
}

func (l *linker) busy(f *fact) bool {
	return slices.ContainsFunc(f.Services, func(s string) bool { return l.writing[s] })
}

// cause is the latest of what may have caused the fact: earlier, of the same Service, and not undone since.
func (l *linker) cause(f *fact) *Cause {
	var best *Cause
	for _, s := range f.Services {
		undone := int64(0)
		if c, ok := l.links[s+" "+f.against]; ok && f.against != "" {
			undone = c.TimeNs
		}
		for _, name := range f.from {
			c, ok := l.links[s+" "+name]
			if ok && c.TimeNs <= f.TimeNs && c.TimeNs >= undone && (best == nil || c.TimeNs > best.TimeNs) {
				best = &c
			}
		}
	}
	return best
}

func (l *linker) link(f *fact) {
	if len(l.links) > maxLinks {
		l.forget()
	}
	for _, s := range f.Services {
		for _, name := range f.ends {
			delete(l.links, s+" "+name)
		}
		if f.is != "" {
			l.links[s+" "+f.is] = Cause{f.Seq, f.TimeNs}
		}
	}
}

// forget drops the older half.
func (l *linker) forget() {
	times := make([]int64, 0, len(l.links))
	for _, c := range l.links {
		times = append(times, c.TimeNs)
	}
	slices.Sort(times)
	for name, c := range l.links {
		if c.TimeNs <= times[len(times)/2] {
			delete(l.links, name)
		}
	}
}

// failed notes a failure; false when a row like it was made in this run already.
func (l *linker) failed(f *fact) bool {
	r := l.runs[f.run]
	if r == nil {
		r = &run{first: f.TimeNs, seq: f.Seq, told: map[string]bool{}}
		l.runs[f.run] = r
	}
	r.count++
	r.last, r.okay = max(r.last, f.TimeNs), nil
	what, _, _ := strings.Cut(f.Text, ":")
	what = f.Subject + what
	if r.told[what] || len(r.told) > 100 {
		return false
	}
	r.told[what] = true
	for _, s := range f.Services {
		if e := l.edges[use{f.addr, s}]; f.addr.IsValid() && e != nil && e.mapped {
			f.Text += "; the map still has a slot for it"
			break
		}
	}
	return true
}

// succeeded ends a run of failures, when no other failure follows.
func (l *linker) succeeded(f *fact) {
	if r := l.runs[f.run]; r != nil && r.okay == nil && f.TimeNs > r.last {
		row := f.Row
		r.okay = &row
	}
}

// endRuns makes the rows of runs that are over.
func (l *linker) endRuns(all bool) {
	for _, name := range sortedKeys(l.runs) {
		r := l.runs[name]
		if r.okay == nil || !all && l.now-r.last < quiet.Nanoseconds() {
			continue
		}
		row := *r.okay
		row.Kind = KindRecovered
		row.Cause = &Cause{r.seq, r.first}
		row.Text += r.String()
		delete(l.runs, name)
		l.row(row)
	}
}
