package verify

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// reading gathers what the events, one after the other, say of themselves.
type reading struct {
	session     string
	first, last uint64
	positions   Check
	ids         map[[16]byte]uint64 // the position of each id, by its hash
	repeated    Check
	sources     map[string]uint64 // the last source_seq
	order       Check
	decoded     Check
	kinds       map[string]int
	known       Check
}

func newReading(session string) *reading {
	return &reading{
		session:   session,
		positions: Check{Name: "positions", Whole: true},
		ids:       map[[16]byte]uint64{},
		repeated:  Check{Name: "ids", Whole: true},
		sources:   map[string]uint64{},
		order:     Check{Name: "source order", Whole: true},
		decoded:   Check{Name: "events", Whole: true},
		kinds:     map[string]int{},
		known:     Check{Name: "kinds", Whole: true},
	}
}

// record takes the next event. It never ends the reading.
func (r *reading) record(rec journal.Record) error {
	if r.first == 0 {
		r.first = rec.Seq
	} else if rec.Seq != r.last+1 {
		r.positions.problem("seq %d to %d are not there", r.last+1, rec.Seq-1)
	}
	r.last = rec.Seq
	e := &eventpb.Event{}
	if err := proto.Unmarshal(rec.Data, e); err != nil {
		r.decoded.problem("seq %d: %v", rec.Seq, err)
		return nil
	}
	r.id(rec.Seq, e)
	r.sourceSeq(rec.Seq, e)
	r.kind(rec.Seq, e)
	r.inside(rec.Seq, e)
	return nil
}

func (r *reading) id(seq uint64, e *eventpb.Event) {
	if e.Id == "" {
		r.repeated.problem("seq %d has no id", seq)
		return
	}
	h := fnv.New128a()
	h.Write([]byte(e.Id))
	key := [16]byte(h.Sum(nil))
	if before, ok := r.ids[key]; ok {
		r.repeated.problem("seq %d has the id %s of seq %d", seq, e.Id, before)
		return
	}
	r.ids[key] = seq
	if r.session != "" && e.Session != r.session {
		r.decoded.problem("seq %d is of session %q", seq, e.Session)
	}
}

// sourceSeq counts from 1 in each run of the recorder.
func (r *reading) sourceSeq(seq uint64, e *eventpb.Event) {
	last, seen := r.sources[e.Source]
	r.sources[e.Source] = e.SourceSeq
	if seen && e.SourceSeq != last+1 && e.SourceSeq != 1 {
		r.order.problem("seq %d is number %d of %s, after number %d", seq, e.SourceSeq, e.Source, last)
	}
}

func (r *reading) kind(seq uint64, e *eventpb.Event) {
	kind := events.KindOf(e)
	r.kinds[kind]++
	if kind == "unknown" {
		r.known.problem("seq %d, of %s, is of a kind that this version does not know", seq, e.Source)
		return
	}
	if n := unknownFields(e.ProtoReflect()); n > 0 {
		r.known.problem("seq %d, %s of %s, has %d bytes of fields that this version does not know", seq, kind, e.Source, n)
	}
}

// unknownFields counts the bytes of what a newer version wrote, wherever they are.
func unknownFields(m protoreflect.Message) int {
	n := len(m.GetUnknown())
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				n += unknownFields(v.List().Get(i).Message())
			}
		default:
			n += unknownFields(v.Message())
		}
		return true
	})
	return n
}

// inside checks what an event carries as bytes.
func (r *reading) inside(seq uint64, e *eventpb.Event) {
	for i, f := range e.GetFlows().GetFlows() {
		if err := proto.Unmarshal(f.Flow, &flowpb.Flow{}); err != nil {
			r.decoded.problem("seq %d, flow %d: %v", seq, i, err)
		}
	}
	for i, a := range e.GetAgentEvents().GetEvents() {
		if err := proto.Unmarshal(a.Event, &flowpb.AgentEvent{}); err != nil {
			r.decoded.problem("seq %d, agent event %d: %v", seq, i, err)
		}
	}
	for _, d := range e.GetMaps().GetMaps() {
		entry := uint64(d.KeySize) + uint64(d.ValueSize)
		if remainder(d.Upserts, entry) || remainder(d.Deletes, uint64(d.KeySize)) {
			r.decoded.problem("seq %d, map %s: %d and %d bytes are not whole entries", seq, d.Map, len(d.Upserts), len(d.Deletes))
		}
	}
}

func remainder(b []byte, size uint64) bool {
	return len(b) > 0 && (size == 0 || uint64(len(b))%size != 0)
}

func (r *reading) checks() []Check {
	r.repeated.Seen = fmt.Sprintf("%d ids", len(r.ids))
	sources := slices.Sorted(maps.Keys(r.sources))
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(r.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", r.kinds[name], name))
	}
	r.order.Seen = strings.Join(sources, " ")
	r.known.Seen = strings.Join(kinds, ", ")
	r.decoded.Seen = fmt.Sprintf("%d events with their flows, agent events and map entries", r.total())
	return []Check{r.repeated, r.order, r.decoded, r.known}
}

func (r *reading) total() (n int) {
	for _, k := range r.kinds {
		n += k
	}
	return n
}
