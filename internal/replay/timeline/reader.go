package timeline

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// reader folds events and says what changed. What it keeps is of the size of the cluster, not of the session.
type reader struct {
	out func(fact)

	state *projections.State
	first int64 // when the session began
	seq   uint64
	seen  int64

	primed   map[string]bool // lists that were read whole once: what was in the first one is no news
	services map[string]*service
	byIP     map[netip.AddrPort]string // a Service's address and port
	byPort   map[uint16]string         // a Service's node port
	pods     map[projections.Name]*pod
	slices   map[projections.Name]*slice
	ends     map[string]map[netip.AddrPort]endpoint // of each Service
	owners   map[netip.AddrPort][]string            // Services that have or had the backend
	podAt    map[netip.AddrPort]string              // the pod that has or had the address
	lb       *balancer
	agent    map[string]*agentRow
	fresh    map[use]bool // new backends that were not used yet
	probes   map[string]string
	talks    map[string]string // pod → the Service that its log named last
	stopped  bool
	// failedAt is when the last failure was seen: successes matter only after one.
	failedAt int64
}

func newReader(out func(fact)) *reader {
	return &reader{
		out: out, state: projections.NewState(), primed: map[string]bool{},
		services: map[string]*service{}, byIP: map[netip.AddrPort]string{}, byPort: map[uint16]string{},
		pods: map[projections.Name]*pod{}, slices: map[projections.Name]*slice{},
		ends: map[string]map[netip.AddrPort]endpoint{}, owners: map[netip.AddrPort][]string{},
		podAt: map[netip.AddrPort]string{}, lb: newBalancer(), agent: map[string]*agentRow{}, fresh: map[use]bool{}, probes: map[string]string{}, talks: map[string]string{},
	}
}

// read takes one event. It belongs to the reader afterwards.
func (r *reader) read(seq uint64, e *eventpb.Event) {
	r.seq, r.seen = seq, e.SeenNs
	if r.first == 0 {
		r.first = e.SeenNs
	}
	switch b := e.Body.(type) {
	case *eventpb.Event_SessionStart:
		r.state.Apply(seq, e)
		r.stopped = false
		r.own(KindRecorder, "recorder", fmt.Sprintf("started: sources %s", strings.Join(b.SessionStart.Sources, ", ")))
	case *eventpb.Event_Status:
		r.state.Apply(seq, e)
		r.status(e.Source, b.Status)
	case *eventpb.Event_Gap:
		r.gap(e.Source, b.Gap)
	case *eventpb.Event_Mark:
		r.own(KindMark, "", b.Mark.Text)
	case *eventpb.Event_Kube:
		r.state.Apply(seq, e)
		r.kube(b.Kube)
	case *eventpb.Event_Maps:
		r.maps(seq, e, b.Maps)
	case *eventpb.Event_Agent:
		r.agentObjects(b.Agent)
	case *eventpb.Event_Host:
		r.sockets(b.Host)
	case *eventpb.Event_Flows:
		r.flows(b.Flows)
	case *eventpb.Event_Log:
		r.log(b.Log)
	case *eventpb.Event_Probe:
		r.probe(b.Probe)
	}
}

// row starts a fact that was seen now and has no time of its own.
func (r *reader) row(kind Kind, services []string, subject, text string) fact {
	return fact{Row: Row{TimeNs: r.seen, SeenNs: r.seen, Services: services, Kind: kind, Subject: subject, Text: text, Seq: r.seq}}
}

// at gives a fact the source's own time where that makes sense: in the session, and not after it was seen.
func (r *reader) at(f fact, ns int64) fact {
	if ns >= r.first && ns <= r.seen+int64(time.Second) {
		f.TimeNs, f.Own = ns, true
	}
	return f
}

// own is a fact of the recorder's.
func (r *reader) own(kind Kind, subject, text string) { r.out(r.row(kind, nil, subject, text)) }

func (r *reader) status(source string, b *eventpb.SourceStatus) {
	switch b.State {
	case eventpb.SourceState_SOURCE_STATE_DOWN:
		r.own(KindGap, source, "down: "+b.Error)
	case eventpb.SourceState_SOURCE_STATE_STOPPED:
		if !r.stopped {
			r.own(KindRecorder, "recorder", "told to stop")
		}
		r.stopped = true
	}
	if source == "bpfmap" && b.State == eventpb.SourceState_SOURCE_STATE_UP {
		r.swept()
	}
}

func (r *reader) gap(source string, b *eventpb.Gap) {
	text := fmt.Sprintf("did not see all from %s to %s (%s", clock(b.FromNs), clock(b.ToNs), gapReason(b.Reason))
	if b.Count > 0 {
		text += fmt.Sprintf(", %d lost", b.Count)
	}
	if b.Detail != "" {
		text += ": " + b.Detail
	}
	r.out(r.at(r.row(KindGap, nil, source, text+")"), b.FromNs))
}

func gapReason(g eventpb.GapReason) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(g.String(), "GAP_REASON_")), "_", " ")
}

func clock(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000") }

// own adds a Service to those that have the backend.
func (r *reader) owned(addr netip.AddrPort, service string) {
	if list := r.owners[addr]; !slices.Contains(list, service) {
		list = append(slices.Clone(list), service)
		slices.Sort(list)
		r.owners[addr] = list
	}
}

// sorted are the names in both maps, in order.
func sorted[V, W any](a map[projections.Name]V, b map[projections.Name]W) []projections.Name {
	names := make([]projections.Name, 0, len(a))
	for n := range a {
		names = append(names, n)
	}
	for n := range b {
		if _, ok := a[n]; !ok {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(x, y projections.Name) int { return strings.Compare(x.String(), y.String()) })
	return names
}
