package facts

import (
	"net/netip"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Fact is one thing that a source saw: an object, a map's entry, a flow, a line of a log.
type Fact struct {
	Seq     uint64 // the event's position
	N       int    // the fact's place in the event, from 0
	EventID string
	Node    string
	Source  string
	Kind    string // of the event's body, see events.KindOf
	Type    string // within the kind: the map, the object's kind, the flow's type; "" where there is one only
	Op      Op
	SeenNs  int64 // when the recorder saw it, Unix nanoseconds
	TimeNs  int64 // when it happened by the source's own clock; 0 where the source has none

	eventNs  int64
	flowNode string // the node as Hubble spells it, with the cluster's name
	body     body
}

// Op says what a fact does to what was known.
type Op string

const (
	Told     Op = ""         // it happened: a flow, a line, a mark
	Upsert   Op = "upsert"   // is there now, or is other than it was
	Delete   Op = "delete"   // is gone
	Snapshot Op = "snapshot" // one of a whole list: what is not in the list is gone
)

// body is what a kind of fact knows of itself.
type body interface {
	members() []member
	text(*Book) string
	refs(*Refs)
}

// member is one member of a JSON object: objects are written in the order that a reader wants.
type member struct {
	name  string
	value any
}

// Refs are the names and addresses in a fact.
type Refs struct {
	Namespaces []string
	Pods       []string // namespace/name
	Services   []string // namespace/name
	Sockets    []netip.AddrPort
	Addrs      []netip.Addr
	Prefixes   []netip.Prefix
	Ports      []uint16
	RevNATs    []uint16 // ids of frontends
	Backends   []uint32 // ids of backends
	Map        string   // the pin's name
	Verdict    string
}

// Refs lists what the fact is about.
func (f *Fact) Refs() Refs {
	var r Refs
	f.body.refs(&r)
	return r
}

// Text is the fact as a person reads it, on one line. The book, which may be nil, names what is an id or an address.
func (f *Fact) Text(b *Book) string { return f.body.text(b) }

// WhenNs is the source's own time where it has one, else when the recorder saw it.
func (f *Fact) WhenNs() int64 {
	if f.TimeNs != 0 {
		return f.TimeNs
	}
	return f.SeenNs
}

// EventNs is when the fact's event happened, by the source's clock where it told one; the event's own facts may have
// times of their own.
func (f *Fact) EventNs() int64 {
	if f.eventNs != 0 {
		return f.eventNs
	}
	return f.SeenNs
}

// Subject names what the fact is about: its type, and the object's name where it is of one object; "" for neither.
func (f *Fact) Subject() string {
	name := ""
	if n, ok := f.body.(interface{ name() string }); ok {
		name = n.name()
	}
	switch {
	case f.Type == "":
		return name
	case name == "":
		return f.Type
	}
	return f.Type + "/" + name
}

// Each calls fn with every fact of an event, in the event's order, and returns the first error. The facts refer to
// the event, which must stay as it is.
func Each(seq uint64, e *eventpb.Event, fn func(*Fact) error) error {
	s := &splitter{fn: fn, event: Fact{
		Seq: seq, EventID: e.Id, Node: e.Node, Source: e.Source, Kind: events.KindOf(e), SeenNs: e.SeenNs, TimeNs: e.TimeNs, eventNs: e.TimeNs,
	}}
	switch b := e.Body.(type) {
	case *eventpb.Event_Kube:
		s.kube(b.Kube)
	case *eventpb.Event_Maps:
		s.maps(b.Maps)
	case *eventpb.Event_Flows:
		s.flows(b.Flows)
	case *eventpb.Event_AgentEvents:
		s.agentEvents(b.AgentEvents)
	case *eventpb.Event_Agent:
		s.agent(b.Agent)
	case *eventpb.Event_Host:
		s.host(b.Host)
	case *eventpb.Event_Log:
		s.log(b.Log)
	case *eventpb.Event_Probe:
		s.add("", Told, 0, probe{b.Probe})
	case *eventpb.Event_SessionStart:
		s.add("", Told, 0, start{b.SessionStart})
	case *eventpb.Event_Status:
		s.add("", Told, 0, status{e.Source, b.Status})
	case *eventpb.Event_Gap:
		s.add("", Told, 0, gap{e.Source, b.Gap})
	case *eventpb.Event_Mark:
		s.add("", Told, 0, mark{b.Mark})
	default:
		s.add("", Told, 0, unknown{len(e.ProtoReflect().GetUnknown())})
	}
	return s.err
}

// splitter hands the facts of one event on, until there is an error.
type splitter struct {
	fn    func(*Fact) error
	event Fact
	n     int
	err   error
}

// add hands one fact on; a time of 0 is the event's.
func (s *splitter) add(typ string, op Op, timeNs int64, b body) {
	if s.err != nil {
		return
	}
	f := s.event
	f.N, f.Type, f.Op, f.body = s.n, typ, op, b
	if timeNs != 0 {
		f.TimeNs = timeNs
	}
	s.n++
	s.err = s.fn(&f)
}

func listed(complete, deleted bool) Op {
	switch {
	case deleted:
		return Delete
	case complete:
		return Snapshot
	}
	return Upsert
}
