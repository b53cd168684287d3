package bpfmap

import (
	"context"
	"fmt"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// group is a set of maps that are read together: the services with their backends and rev-NAT, or one other map.
type group struct {
	schedule
	tables []*table
	// Of the services group:
	joint bool
	full  time.Time // when the whole group was last read
	torn  time.Time // since when no two reads of the services were equal; zero when they are
	force bool      // read the whole group at the next poll
}

// poll reads the group and packs what changed.
func (g *group) poll(ctx context.Context, p *packer, ktime func() uint32) error {
	if g.joint {
		return g.pollServices(ctx, p, ktime)
	}
	for _, t := range g.tables {
		whole, err := t.read(ctx, t.cur, p)
		if err != nil {
			return err
		}
		if whole {
			p.seen = t.good
			t.publish(p, ktime())
		}
	}
	return nil
}

func (g *group) press(now time.Time) {
	g.force = true
	g.schedule.press(now)
}

// tellLate says that the group was not looked at for longer than it should have been.
func (g *group) tellLate(p *packer, now time.Time) {
	since, late := g.late(now)
	if !late {
		return
	}
	p.seen = now
	p.gap(since, eventpb.GapReason_GAP_REASON_LATE, fmt.Sprintf("%s was not read for %s, %s is usual",
		g.name(), now.Sub(since).Round(time.Millisecond), g.interval().Round(time.Millisecond)))
}

func (g *group) name() string {
	if g.joint {
		return "the services maps"
	}
	return g.tables[0].name
}

// together are the kinds of the services group.
func together(k cilium.Kind) bool {
	switch k {
	case cilium.Services4, cilium.Services6, cilium.Backends4, cilium.Backends6, cilium.RevNAT4, cilium.RevNAT6:
		return true
	}
	return false
}

// isConnection are the kinds that change with every connection.
func isConnection(k cilium.Kind) bool {
	switch k {
	case cilium.CT4TCP, cilium.CT4Any, cilium.CT6TCP, cilium.CT6Any, cilium.SockRevNAT4, cilium.SockRevNAT6:
		return true
	}
	return false
}

func isPolicy(k cilium.Kind) bool { return k == cilium.Policy }

// readTwice are those whose two reads must be equal.
func readTwice(k cilium.Kind) bool { return k == cilium.Services4 || k == cilium.Services6 }

// Paces hold a poll's worst delay and its cost. To walk a hash map costs 0.5 to 2 ns per place that it could hold, full
// or not: up to 0.14 ms for services with their 65,536 places, 0.6 ms for a CT map with 221,719.
var (
	servicesPace = pace{min: 50 * time.Millisecond, max: 250 * time.Millisecond, factor: 25}
	// fullEvery is how often backends and rev-NAT are read although the services did not change.
	fullEvery = time.Second
	// scanPace is of looking for pins that came, went or were replaced.
	scanPace = pace{min: time.Second, max: 10 * time.Second, factor: 500}

	// followedEvery is how often the services are polled while every change of them is told by a trigger.
	followedEvery = 500 * time.Millisecond

	// Connections come with a trigger, which is answered at once, and then twice a second while it goes on. Between
	// triggers their maps are polled for those that nobody told of, and for connections that end; of the maps for
	// IPv6, for example, most see none.
	connectionPace = pace{min: time.Second, max: 30 * time.Second, factor: 20, gap: 500 * time.Millisecond, quiet: 8}
	// SNAT entries can be as many as connections; no trigger tells of them.
	slowPace = pace{min: 2 * time.Second, max: time.Minute, factor: 50, quiet: 4}
)

func paceOf(k cilium.Kind) pace {
	if isConnection(k) {
		return connectionPace
	}
	switch k {
	case cilium.Endpoints:
		return pace{min: time.Second, max: 10 * time.Second, factor: 100, quiet: 4}
	case cilium.Affinity4, cilium.Affinity6:
		return pace{min: time.Second, max: 30 * time.Second, factor: 50, quiet: 8}
	case cilium.Neighbors4, cilium.Neighbors6:
		return pace{min: 5 * time.Second, max: time.Minute, factor: 50}
	}
	return slowPace
}
