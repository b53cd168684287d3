package timeline

import "net/netip"

// fact is a row whose cause is not looked for yet.
type fact struct {
	Row
	// is names the fact for later ones that it may have caused, within each of its Services: "ready 10.42.0.9:8080".
	is string
	// from names what may have caused it; the latest of them did.
	from []string
	// against is what undid such a fact before: its cause is later than that.
	against string
	// ends are the facts that it undoes.
	ends []string
	// silent facts make no row: what was there when the recording began.
	silent bool
	// unsure facts were found in a new list: when they happened is not known, so they cause nothing and are no sample.
	unsure bool
	edge   edge
	addr   netip.AddrPort // of the edge
	// run joins failures with what ends them.
	run string
	// polled facts were read from the map, which the agent may just have been writing. writing and written say so.
	polled           bool
	writing, written bool
	failed           bool
	okay             bool
}

// edge is what convergence is measured between.
type edge uint8

const (
	noEdge edge = iota
	sliceIn
	sliceOut
	mapIn  // in all of the Service's frontends
	mapOut // in none
)
