package export

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// published is the part of Perfetto's schema (protos/perfetto/trace) that a trace of ours may use, with the names,
// numbers and types published there.
const published = `
name: "trace.proto" package: "perfetto.protos" syntax: "proto2"
message_type { name: "Trace" field { name: "packet" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".perfetto.protos.TracePacket" } }
message_type { name: "TracePacket"
  field { name: "clock_snapshot" number: 6 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".perfetto.protos.ClockSnapshot" }
  field { name: "timestamp" number: 8 label: LABEL_OPTIONAL type: TYPE_UINT64 }
  field { name: "trusted_packet_sequence_id" number: 10 label: LABEL_OPTIONAL type: TYPE_UINT32 }
  field { name: "track_event" number: 11 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".perfetto.protos.TrackEvent" }
  field { name: "sequence_flags" number: 13 label: LABEL_OPTIONAL type: TYPE_UINT32 }
  field { name: "timestamp_clock_id" number: 58 label: LABEL_OPTIONAL type: TYPE_UINT32 }
  field { name: "track_descriptor" number: 60 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".perfetto.protos.TrackDescriptor" } }
message_type { name: "ClockSnapshot"
  field { name: "clocks" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".perfetto.protos.Clock" }
  field { name: "primary_trace_clock" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 } }
message_type { name: "Clock"
  field { name: "clock_id" number: 1 label: LABEL_OPTIONAL type: TYPE_UINT32 }
  field { name: "timestamp" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT64 } }
message_type { name: "TrackDescriptor"
  field { name: "uuid" number: 1 label: LABEL_OPTIONAL type: TYPE_UINT64 }
  field { name: "name" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "parent_uuid" number: 5 label: LABEL_OPTIONAL type: TYPE_UINT64 } }
message_type { name: "TrackEvent"
  field { name: "debug_annotations" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".perfetto.protos.DebugAnnotation" }
  field { name: "type" number: 9 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".perfetto.protos.TrackEvent.Type" }
  field { name: "track_uuid" number: 11 label: LABEL_OPTIONAL type: TYPE_UINT64 }
  field { name: "categories" number: 22 label: LABEL_REPEATED type: TYPE_STRING }
  field { name: "name" number: 23 label: LABEL_OPTIONAL type: TYPE_STRING }
  enum_type { name: "Type"
    value { name: "TYPE_UNSPECIFIED" number: 0 } value { name: "TYPE_SLICE_BEGIN" number: 1 }
    value { name: "TYPE_SLICE_END" number: 2 } value { name: "TYPE_INSTANT" number: 3 } } }
message_type { name: "DebugAnnotation"
  field { name: "uint_value" number: 3 label: LABEL_OPTIONAL type: TYPE_UINT64 }
  field { name: "string_value" number: 6 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "name" number: 10 label: LABEL_OPTIONAL type: TYPE_STRING } }
`

// traceOf decodes a trace by the published schema.
func traceOf(t *testing.T, b []byte) protoreflect.List {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(published), file); err != nil {
		t.Fatal(err)
	}
	desc, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	trace := dynamicpb.NewMessage(desc.Messages().ByName("Trace"))
	if err := proto.Unmarshal(b, trace); err != nil {
		t.Fatal(err)
	}
	return trace.Get(trace.Descriptor().Fields().ByName("packet")).List()
}

func field(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func noUnknown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("%s has fields that the schema does not: %x", m.Descriptor().Name(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				noUnknown(t, v.List().Get(i).Message())
			}
		default:
			noUnknown(t, v.Message())
		}
		return true
	})
}

// drawn is what a viewer draws: tracks by their path, the slices on them and the number of their instants.
type drawn struct {
	paths    map[uint64]string
	slices   map[string][]string // begun, by path
	instants map[string]int
	open     map[uint64]int
	last     map[uint64]uint64
}

func (d *drawn) packet(t *testing.T, p protoreflect.Message) {
	t.Helper()
	if !p.Has(p.Descriptor().Fields().ByName("track_event")) {
		if track := field(p, "track_descriptor").Message(); track.IsValid() {
			name := field(track, "name").String()
			if parent := field(track, "parent_uuid").Uint(); parent != 0 {
				name = d.paths[parent] + " | " + name
			}
			d.paths[field(track, "uuid").Uint()] = name
		}
		return
	}
	e := field(p, "track_event").Message()
	id, ns := field(e, "track_uuid").Uint(), field(p, "timestamp").Uint()
	path, ok := d.paths[id]
	if !ok || field(p, "timestamp_clock_id").Uint() != 1 || field(p, "trusted_packet_sequence_id").Uint() == 0 {
		t.Fatalf("event on the track %d, which is not described, or by no clock", id)
	}
	switch field(e, "type").Enum() {
	case 1:
		d.slices[path] = append(d.slices[path], field(e, "name").String())
		d.open[id]++
		d.last[id] = ns
	case 2:
		d.open[id]--
		if ns < d.last[id] || d.open[id] < 0 {
			t.Errorf("%s: a slice ends before it begins", path)
		}
	case 3:
		d.instants[path]++
	default:
		t.Errorf("%s: event of no type", path)
	}
}

// The lab's tape: web has two backends and then four, its NodePort Service four at three frontends, ghost none. What
// it has at its end is in testdata/lab; the marks are the steps'.
func TestPerfettoTrace(t *testing.T) {
	var out, again bytes.Buffer
	if err := Perfetto(t.Context(), &out, openLab(t)); err != nil {
		t.Fatal(err)
	}
	if err := Perfetto(t.Context(), &again, openLab(t)); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same tape gave other bytes: ", err)
	}
	packets := traceOf(t, out.Bytes())
	d := &drawn{map[uint64]string{}, map[string][]string{}, map[string]int{}, map[uint64]int{}, map[uint64]uint64{}}
	for i := range packets.Len() {
		noUnknown(t, packets.Get(i).Message())
		d.packet(t, packets.Get(i).Message())
	}
	for id, n := range d.open {
		if n != 0 {
			t.Errorf("%s: %d slices are open at the end", d.paths[id], n)
		}
	}
	slots := map[string]int{}
	for path := range d.slices {
		service, track, _ := strings.Cut(path, " | ")
		if strings.Contains(track, " → ") {
			slots[service]++
		}
	}
	// Before the tape's first step the cluster still had an earlier run's Services, whose slots were empty by then.
	if slots["cca-dp/web"] != 4 || slots["cca-dp/web-np"] != 12 || slots["cca-dp/ghost"] != 0 {
		t.Errorf("tracks of slots: %v", slots)
	}
	if d.instants["marks"] != 8 || d.instants["gaps | hubble"] != 1 || d.instants["cca-dp/ghost | failures"] != 1 {
		t.Errorf("marks %d, gaps %d, ghost's failures %d", d.instants["marks"], d.instants["gaps | hubble"], d.instants["cca-dp/ghost | failures"])
	}
	flows := 0
	for path, n := range d.instants {
		if strings.HasSuffix(path, "| flows") || strings.HasSuffix(path, "| failures") {
			flows += n
		}
	}
	// Of four probes two of the node port and the ghost's failed.
	if flows != 4435+3 {
		t.Errorf("%d flows and failed probes, the tape has 4435 and 3", flows)
	}
}
