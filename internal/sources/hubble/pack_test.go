package hubble

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/hubble/hubbletest"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// roundTrip packs a copy in a batch, through the bytes of an event, and restores it.
func roundTrip(t testing.TB, f *flowpb.Flow) *flowpb.Flow {
	t.Helper()
	b := newBatch()
	if err := b.addFlow(proto.CloneOf(f), time.Now()); err != nil {
		t.Fatal(err)
	}
	bytes, err := proto.Marshal(b.take()[0].GetFlows())
	if err != nil {
		t.Fatal(err)
	}
	batch := &eventpb.Flows{}
	if err := proto.Unmarshal(bytes, batch); err != nil {
		t.Fatal(err)
	}
	return Expand(batch, 0)
}

func TestExpandRestoresRealFlows(t *testing.T) {
	flows := fixtureFlows(t, "testdata/flows.jsonl")
	if len(flows) < 9 {
		t.Fatalf("%d flows in testdata", len(flows))
	}
	for _, f := range flows {
		if diff := cmp.Diff(f, roundTrip(t, f), protocmp.Transform()); diff != "" {
			t.Errorf("flow %s: %s", f.GetUuid(), diff)
		}
	}
}

func TestExpandRestoresOddFlows(t *testing.T) {
	unknown := &flowpb.Flow{Uuid: "not-a-uuid"}
	unknown.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 29999, protowire.BytesType), "a later version's field"))
	for name, f := range map[string]*flowpb.Flow{
		"empty":               {},
		"fields of tomorrow":  unknown,
		"upper case uuid":     {Uuid: "A8BF124F-862B-4F3B-8A28-CF1B2BA5B2F5"},
		"uuid cut":            {Uuid: "a8bf124f-862b-4f3b-8a28-cf1b2ba5b2f"},
		"dashes elsewhere":    {Uuid: "a8bf124f862b-4f3b-8a28-cf1b2ba5b2f5-"},
		"time 0":              {Time: &timestamppb.Timestamp{}},
		"time before 1970":    {Time: &timestamppb.Timestamp{Seconds: -5, Nanos: 7}},
		"time out of range":   {Time: &timestamppb.Timestamp{Seconds: math.MaxInt64}},
		"nanos out of range":  {Time: &timestamppb.Timestamp{Seconds: 1, Nanos: 2_000_000_000}},
		"no layer 4":          {Verdict: flowpb.Verdict_TRACED, SocketCookie: 42, IP: &flowpb.IP{Destination: "10.43.0.10"}},
		"node without labels": {NodeName: "lab/lab"},
	} {
		if got := roundTrip(t, f); !proto.Equal(f, got) {
			t.Errorf("%s: %s", name, cmp.Diff(f, got, protocmp.Transform()))
		}
	}
}

func TestExpandOfForeignBytesIsNil(t *testing.T) {
	batch := &eventpb.Flows{Flows: []*eventpb.Flow{{Flow: []byte("\xff\xff\xff")}, {}}}
	for _, i := range []int{-1, 0, 2} {
		if got := Expand(batch, i); got != nil {
			t.Errorf("Expand(%d) = %v", i, got)
		}
	}
	if Expand(nil, 0) != nil {
		t.Error("Expand(nil) is something")
	}
}

func FuzzExpand(f *testing.F) {
	f.Add([]byte{}, []byte("0123456789abcdef"), int64(1))
	f.Fuzz(func(_ *testing.T, flow, uuid []byte, ns int64) {
		Expand(&eventpb.Flows{Flows: []*eventpb.Flow{{Flow: flow, Uuid: uuid, TimeNs: ns}}}, 0)
	})
}

// A window has one event per node, each with its name and labels once.
func TestBatchKeepsNodesApart(t *testing.T) {
	b := newBatch()
	for i, node := range []string{"a", "b", "a"} {
		f := hubbletest.Flow(i).GetFlow()
		f.NodeName = node
		if err := b.addFlow(f, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	out := b.take()
	if len(out) != 2 || len(out[0].GetFlows().GetFlows()) != 2 || out[1].GetFlows().GetNodeName() != "b" {
		t.Errorf("batch %v", out)
	}
}

// The size of a recorded flow, with TAPEDECK_FLOWS a file of `hubble observe -o jsonpb`.
func TestSizeOfFlows(t *testing.T) {
	file := os.Getenv("TAPEDECK_FLOWS")
	if file == "" {
		t.Skip("set TAPEDECK_FLOWS to a file of flows, or a pattern")
	}
	files, _ := filepath.Glob(file)
	for _, file := range files {
		flows := fixtureFlows(t, file)
		b := newBatch()
		for _, f := range flows {
			if err := b.addFlow(f, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		e := b.take()[0]
		bytes, err := proto.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		n := len(flows)
		t.Logf("%s: %d flows, %d bytes each, %d after zstd", file, n, len(bytes)/n, len(z.EncodeAll(bytes, nil))/n)
		for _, f := range e.GetFlows().GetFlows() {
			f.Uuid = nil
		}
		bytes, _ = proto.Marshal(e)
		t.Logf("  without uuid: %d bytes each, %d after zstd", len(bytes)/n, len(z.EncodeAll(bytes, nil))/n)
		z.Close()
	}
}
