package export

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/replay/facts"
	"google.golang.org/protobuf/proto"
)

// Perfetto writes a trace for ui.perfetto.dev and the trace processor. Each Service has tracks below it, one for each
// frontend and backend with a slice for as long as a slot named it, one for each address that its EndpointSlices had
// as ready, and those of its flows, failures and probes. Flows to a backend past any frontend have the backend's track.
// Marks, gaps and the sources' states have tracks of their own. A slice that is open at the end is ended there.
func Perfetto(ctx context.Context, w io.Writer, t *journal.Tape) error {
	out := bufio.NewWriter(w)
	p := &perfetto{
		packets: packets{out: out, tracks: map[string]uint64{}},
		state:   projections.NewState(), book: facts.NewBook(), open: map[string]*slice{},
	}
	h := t.Header()
	p.clocks(h.GetClocks(), h.GetFirstNs())
	err := t.Read(ctx, 0, 0, func(r journal.Record) error {
		e := &eventpb.Event{}
		if err := proto.Unmarshal(r.Data, e); err != nil {
			return fmt.Errorf("decode event at seq %d: %w", r.Seq, err)
		}
		return p.add(r.Seq, e)
	})
	if err != nil {
		return err
	}
	p.end()
	if p.err != nil {
		return p.err
	}
	return out.Flush()
}

type perfetto struct {
	packets
	state    *projections.State
	book     *facts.Book
	open     map[string]*slice       // what has begun, by its track
	backends map[netip.AddrPort]bool // of any frontend, now
	last     int64
}

// slice is something that a Service has for a time.
type slice struct {
	service, name, category string
	ns                      int64 // since when
	seq                     uint64
	track                   uint64 // 0 while it is not written: it waits for its Service to be known
}

func (p *perfetto) add(seq uint64, e *eventpb.Event) error {
	p.last = max(p.last, e.SeenNs)
	p.book.Add(e)
	if err := facts.Each(seq, e, p.fact); err != nil {
		return err
	}
	changes := e.GetMaps() != nil || e.GetKube() != nil || e.GetStatus() != nil || e.GetSessionStart() != nil
	seen := e.SeenNs
	p.state.Apply(seq, e) // the event is the state's from here on
	if changes {
		p.slices(seq, seen)
	}
	return p.err
}

// slices begins and ends what the event changed. Maps may be read before the Service is: a slice is written, with its
// own time, when its Service is known, and below "no Service" when it ends before that.
func (p *perfetto) slices(seq uint64, ns int64) {
	now := map[string]slice{}
	p.backends = map[netip.AddrPort]bool{}
	p.slots(now)
	p.ready(now)
	for _, key := range slices.Sorted(maps.Keys(p.open)) {
		if _, ok := now[key]; !ok {
			p.begin(key, p.open[key])
			p.event(ns, typeSliceEnd, p.open[key].track, "", "", note{name: "ended_by_seq", number: seq})
			delete(p.open, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		s := p.open[key]
		if s == nil {
			s = &slice{ns: ns, seq: seq}
			p.open[key] = s
		}
		if s.track == 0 {
			s.service, s.name, s.category = now[key].service, now[key].name, now[key].category
			if s.service != "" {
				p.begin(key, s)
			}
		}
	}
}

// begin writes a slice's begin, once.
func (p *perfetto) begin(key string, s *slice) {
	if s.track == 0 {
		s.track = p.track(p.track(0, cmp.Or(s.service, "no Service")), key)
		p.event(s.ns, typeSliceBegin, s.track, s.category, s.name, note{name: "begun_by_seq", number: s.seq})
	}
}

// slots are the frontends' backends, by the maps: those of slots up to the count, among which the datapath chooses.
func (p *perfetto) slots(now map[string]slice) {
	list := projections.EntriesOf(p.state, cilium.DecodeService, cilium.Services4, cilium.Services6)
	type frontend struct {
		address netip.AddrPort
		proto   cilium.Proto
		scope   uint8
	}
	of := func(s cilium.Service) frontend { return frontend{s.Frontend, s.Proto, s.Scope} }
	counts := map[frontend]uint16{}
	for _, e := range list {
		if e.Value.Head() {
			counts[of(e.Value)] = e.Value.Count
		}
	}
	for _, e := range list {
		s := e.Value
		if s.Head() || s.Slot > counts[of(s)] {
			continue
		}
		name := fmt.Sprintf("backend %d", s.BackendID)
		target := name
		if a, ok := p.book.Backend(s.Frontend.Addr().Is6(), s.BackendID); ok {
			p.backends[a] = true
			target = a.String()
			name = cmp.Or(p.book.PodOf(a.Addr()), target)
		}
		scope := ""
		if s.Internal {
			scope = "/i"
		}
		track := fmt.Sprintf("%s/%s%s → %s", s.Frontend, s.Proto, scope, target)
		now[track] = slice{service: p.book.ServiceOf(s.Frontend), name: name, category: "slot"}
	}
}

// ready are the addresses that the Services' EndpointSlices have as ready.
func (p *perfetto) ready(now map[string]slice) {
	for _, o := range p.state.Objects(eventpb.Kind_KIND_ENDPOINT_SLICE) {
		s := o.GetEndpointSlice()
		if s.GetService() == "" {
			continue
		}
		for _, e := range s.GetEndpoints() {
			if e.GetTerminating() || e.Ready != nil && !e.GetReady() {
				continue
			}
			for _, a := range e.Addresses {
				name := a
				if e.TargetName != "" {
					name = e.TargetNamespace + "/" + e.TargetName
				}
				service := o.Namespace + "/" + s.Service
				now["ready "+a+" for "+service] = slice{service: service, name: name, category: "ready"}
			}
		}
	}
}

func (p *perfetto) fact(f *facts.Fact) error {
	seq := note{name: "seq", number: f.Seq}
	switch f.Kind {
	case "flows":
		p.flow(f.Flow(), f.WhenNs(), seq)
	case "probe":
		p.probe(f, seq)
	case "mark":
		p.event(f.WhenNs(), typeInstant, p.track(0, "marks"), "mark", f.Text(nil), seq)
	case "gap":
		p.event(f.WhenNs(), typeInstant, p.track(p.track(0, "gaps"), f.Source), "gap", f.Text(nil), seq)
	case "status":
		p.event(f.WhenNs(), typeInstant, p.track(p.track(0, "sources"), f.Source), "status", f.Text(nil), seq)
	}
	return p.err
}

func (p *perfetto) flow(f *flowpb.Flow, ns int64, seq note) {
	src, dst := endOf(f, true), endOf(f, false)
	parent := p.flowTrack(f, src, dst)
	category, track := "flow", "flows"
	if v := f.GetVerdict(); v == flowpb.Verdict_DROPPED || v == flowpb.Verdict_ERROR {
		category, track = "failure", "failures"
	}
	notes := []note{seq, {name: "verdict", text: f.GetVerdict().String()}, {name: "source", text: cmp.Or(src, "unknown")},
		{name: "destination", text: cmp.Or(dst, "unknown")}}
	if f.GetUuid() != "" {
		notes = append(notes, note{name: "uuid", text: f.GetUuid()})
	}
	p.event(ns, typeInstant, p.track(parent, track), category, facts.FlowType(f)+" "+f.GetVerdict().String(), notes...)
}

// flowTrack is the Service's where the flow names one or has a frontend of it, else the backend's where it has one.
func (p *perfetto) flowTrack(f *flowpb.Flow, ends ...string) uint64 {
	for _, s := range []*flowpb.Service{f.GetDestinationService(), f.GetSourceService()} {
		if s.GetName() != "" {
			return p.track(0, s.GetNamespace()+"/"+s.GetName())
		}
	}
	backend := ""
	for _, end := range ends {
		a, err := netip.ParseAddrPort(end)
		if err != nil {
			continue
		}
		if name := p.book.ServiceOf(a); name != "" {
			return p.track(0, name)
		}
		if p.backends[a] {
			backend = "backend " + end
			if pod := p.book.PodOf(a.Addr()); pod != "" {
				backend += " (" + pod + ")"
			}
		}
	}
	return p.track(0, cmp.Or(backend, "other"))
}

func endOf(f *flowpb.Flow, source bool) string {
	ip, port := f.GetIP().GetDestination(), uint32(0)
	if source {
		ip = f.GetIP().GetSource()
	}
	type ports interface {
		GetSourcePort() uint32
		GetDestinationPort() uint32
	}
	for _, l4 := range []ports{f.GetL4().GetTCP(), f.GetL4().GetUDP(), f.GetL4().GetSCTP()} {
		if n := l4.GetDestinationPort(); !source && n != 0 {
			port = n
		}
		if n := l4.GetSourcePort(); source && n != 0 {
			port = n
		}
	}
	a, err := netip.ParseAddr(ip)
	if err != nil || port == 0 {
		return ip
	}
	return netip.AddrPortFrom(a, uint16(port)).String()
}

// probe goes to the Service whose frontend it asked.
func (p *perfetto) probe(f *facts.Fact, seq note) {
	service := ""
	for _, a := range f.Refs().Sockets {
		service = cmp.Or(service, p.book.ServiceOf(a))
	}
	category, track := "probe", "probes"
	if f.Failed() {
		category, track = "failure", "failures"
	}
	p.event(f.WhenNs(), typeInstant, p.track(p.track(0, cmp.Or(service, "other")), track), category, f.Text(nil), seq)
}

// end ends what is open, at the last moment of the tape.
func (p *perfetto) end() {
	for _, key := range slices.Sorted(maps.Keys(p.open)) {
		p.begin(key, p.open[key])
		p.event(p.last, typeSliceEnd, p.open[key].track, "", "", note{name: "still_there_at_end", number: 1})
	}
}
