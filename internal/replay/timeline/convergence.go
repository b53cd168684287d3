package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// edges are where a backend of a Service stands between EndpointSlice and map.
type edges struct {
	mapped  bool
	readyAt int64 // ready in the slice and not in the map yet
	outAt   int64 // not ready any more and still in the map
}

// figures are what was measured of one Service.
type figures struct {
	added, removed           []time.Duration
	addedAhead, removedAhead int
}

// Convergence says how long the map took to follow the EndpointSlice of a Service, in one direction. Durations are
// between the moments at which each was seen; the map is seen by polling.
type Convergence struct {
	Service   string
	Direction string // added or removed
	Count     int
	// How often the map was first.
	MapFirst         int
	Min, Median, P99 time.Duration
}

func (l *linker) edge(service string, f *fact) {
	u := use{f.addr, service}
	e := l.edges[u]
	if e == nil {
		e = &edges{}
		l.edges[u] = e
	}
	g := l.figures[service]
	if g == nil {
		g = &figures{}
		l.figures[service] = g
	}
	sure := !f.silent && !f.unsure
	counted := sure && l.filter.in(f.TimeNs)
	switch f.edge {
	case sliceIn:
		e.readyAt, e.outAt = 0, 0
		switch {
		case !sure:
		case !e.mapped:
			e.readyAt = f.TimeNs
		case counted:
			g.addedAhead++
		}
	case mapIn:
		if e.readyAt > 0 && counted {
			g.added = append(g.added, time.Duration(f.TimeNs-e.readyAt))
		}
		e.mapped, e.readyAt = true, 0
	case sliceOut:
		e.readyAt = 0
		switch {
		case !sure:
		case e.mapped:
			e.outAt = f.TimeNs
		case counted:
			g.removedAhead++
		}
	case mapOut:
		if e.outAt > 0 && counted {
			g.removed = append(g.removed, time.Duration(f.TimeNs-e.outAt))
		}
		e.mapped, e.outAt = false, 0
	}
	if *e == (edges{}) {
		delete(l.edges, u)
	}
}

// broken drops what was being measured: a source did not see all, so the other end may have come unseen.
func (l *linker) broken(source string) {
	if source == "hubble" || source == "podlog" || source == "probe" || source == "host" || source == "agent" {
		return
	}
	for u, e := range l.edges {
		e.readyAt, e.outAt = 0, 0
		if *e == (edges{}) {
			delete(l.edges, u)
		}
	}
}

// convergence gives the figures of each Service that the filter asks for.
func (l *linker) convergence() []Convergence {
	var list []Convergence
	for _, name := range sortedKeys(l.figures) {
		g := l.figures[name]
		if name == "" || !l.filter.service(name) {
			continue
		}
		for _, c := range []Convergence{
			measured(name, "added", g.added, g.addedAhead),
			measured(name, "removed", g.removed, g.removedAhead),
		} {
			if c.Count+c.MapFirst > 0 {
				list = append(list, c)
			}
		}
	}
	return list
}

func measured(service, direction string, samples []time.Duration, ahead int) Convergence {
	c := Convergence{Service: service, Direction: direction, Count: len(samples), MapFirst: ahead}
	if len(samples) == 0 {
		return c
	}
	slices.Sort(samples)
	c.Min, c.Median, c.P99 = samples[0], rank(samples, 50), rank(samples, 99)
	return c
}

// rank is the percentile by nearest rank: a value that was measured, none between two.
func rank(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}

func (r *run) String() string {
	failures := "1 failure"
	if r.count > 1 {
		failures = fmt.Sprintf("%d failures", r.count)
	}
	text := "; " + failures
	if d := time.Duration(r.last - r.first); d > 0 {
		text += " in " + short(d)
	}
	return text + " before it"
}

// short shows a duration as people measure it, with three or four digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
