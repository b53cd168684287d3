package timeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// agentRow is one row of the agent's table of frontends.
type agentRow struct {
	service  string
	backends map[netip.AddrPort]int // state by address
	status   string
	wanted   map[agentChange]bool // changes that are not written yet
}

// agentChange is one backend of a Service in another state than before.
type agentChange struct {
	use
	from, to int
}

// The agent's states of a backend, of which the datapath has fewer.
const (
	agentAbsent = -1
	agentActive = 0
)

var agentStates = map[int]string{0: "active", 1: "terminating", 2: "terminating, not serving", 3: "quarantined", 4: "not ready (maintenance)"}

func (c agentChange) String() string {
	state := agentStates[c.to]
	if state == "" {
		state = fmt.Sprintf("in state %d", c.to)
	}
	switch {
	case c.to == agentAbsent:
		return "backend removed"
	case c.from == agentAbsent && c.to == agentActive:
		return "backend added"
	case c.from == agentAbsent:
		return "backend added, " + state
	}
	return "backend " + state
}

// agentDone is what one event says of one change, in all of the Service's frontends.
type agentDone struct {
	pendingNs, doneNs int64
	fronts            int
	written           int
	wantedBefore      bool
}

func (r *reader) agentObjects(b *eventpb.AgentObjects) {
	if b.Kind != "frontend" {
		return
	}
	how := change{unsure: b.Complete && r.primed["agent"], silent: b.Complete && !r.primed["agent"]}
	found := map[agentChange]*agentDone{}
	if b.Complete {
		r.primed["agent"] = true
		listed := map[string]bool{}
		for _, o := range b.Objects {
			listed[o.Key] = true
		}
		for _, key := range slices.Sorted(maps.Keys(r.agent)) {
			if !listed[key] {
				r.agentObject(&eventpb.AgentObject{Key: key, Deleted: true}, found)
			}
		}
	}
	for _, o := range b.Objects {
		r.agentObject(o, found)
	}
	r.named()
	changes := slices.SortedFunc(maps.Keys(found), func(a, b agentChange) int {
		return cmp.Or(strings.Compare(a.service, b.service), a.addr.Compare(b.addr), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	r.writing(how, found)
	for _, c := range changes {
		r.agentChanged(how, c, found[c])
	}
}

// agentObject compares a row with what it was. A row goes from Pending to Done when the map is written.
func (r *reader) agentObject(o *eventpb.AgentObject, found map[agentChange]*agentDone) {
	old := r.agent[o.Key]
	if old == nil {
		old = &agentRow{backends: map[netip.AddrPort]int{}}
	}
	now := &agentRow{service: old.service, backends: map[netip.AddrPort]int{}, status: o.Reconciled, wanted: map[agentChange]bool{}}
	if o.Deleted {
		delete(r.agent, o.Key)
	} else {
		readAgentRow(o.Json, now)
		r.agent[o.Key] = now
	}
	note := func(c agentChange, before bool) {
		d := found[c]
		if d == nil {
			d = &agentDone{wantedBefore: before}
			found[c] = d
		}
		switch {
		case o.Reconciled == "Done" || o.Deleted:
			d.doneNs = max(d.doneNs, o.ReconciledNs)
			d.written++
		default:
			d.pendingNs = max(d.pendingNs, o.ReconciledNs)
			d.fronts++
			now.wanted[c] = true
		}
	}
	for c := range old.wanted {
		note(c, true)
	}
	all := maps.Clone(old.backends)
	maps.Copy(all, now.backends)
	for a := range all {
		was, had := old.backends[a]
		is, has := now.backends[a]
		if !had {
			was = agentAbsent
		}
		if !has {
			is = agentAbsent
		}
		if was != is {
			note(agentChange{use{a, now.service}, was, is}, false)
		}
	}
	if o.Reconciled == "Error" && old.status != "Error" {
		f := r.at(r.row(KindFailure, use{service: now.service}.services(), o.Key, "agent: could not write the maps"), o.ReconciledNs)
		r.out(f)
	}
}

func readAgentRow(text []byte, row *agentRow) {
	var v struct {
		ServiceName string
		Backends    []struct {
			Address string
			State   int
		}
	}
	if json.Unmarshal(text, &v) != nil {
		return
	}
	row.service = v.ServiceName
	for _, b := range v.Backends {
		addr, _, _ := strings.Cut(b.Address, "/")
		if a, err := netip.ParseAddrPort(addr); err == nil {
			row.backends[a] = b.State
		}
	}
}

// agentChanged makes a row of a change: one when it was wanted, and one when it was written, or one for both where
// the agent told of both at once.
func (r *reader) agentChanged(how change, c agentChange, d *agentDone) {
	a := c.addr.String()
	f := r.row(KindAgent, c.services(), a, "agent: "+c.String())
	switch {
	case d.written == 0:
		f = r.at(f, d.pendingNs)
		f.Text += " (Pending)"
		f.is, f.from = "pending "+c.is()+" "+a, c.causes()
	case d.wantedBefore:
		f = r.at(f, d.doneNs)
		f.Text += ": map written (Done)"
		f.is, f.from = c.is()+" "+a, append(c.causes(), "pending "+c.is()+" "+a)
	default:
		f = r.at(f, d.doneNs)
		f.is, f.from = c.is()+" "+a, c.causes()
		f.Text += ": map written (Done)"
	}
	r.owned(c.addr, c.service)
	how.out(r, f)
}

// writing says when the agent began and ended to write a Service, as its rows tell.
func (r *reader) writing(how change, found map[agentChange]*agentDone) {
	if how.silent || how.unsure {
		return
	}
	for c, d := range found {
		f := r.row(KindAgent, c.services(), "", "")
		f.silent = true
		if d.pendingNs > 0 {
			began := r.at(f, d.pendingNs)
			began.writing = true
			r.out(began)
		}
		if d.written > 0 {
			f.written = true
			r.out(r.at(f, d.doneNs))
		}
	}
}

// is names the change for what it may cause.
func (c agentChange) is() string {
	switch {
	case c.to == agentActive:
		return "agent in"
	case c.from == agentActive:
		return "agent out"
	case c.to == agentAbsent:
		return "agent gone"
	}
	return "agent other"
}

func (c agentChange) causes() []string {
	a := c.addr.String()
	switch {
	case c.to == agentActive:
		return []string{"in " + a}
	case c.from == agentActive:
		return []string{"out " + a}
	case c.to == agentAbsent:
		return []string{"gone " + a, "out " + a}
	}
	return []string{"known " + a, "out " + a}
}
