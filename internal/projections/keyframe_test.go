package projections

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/profiles"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// relay folds records twice: once from the start, and once through a keyframe before every single event. At every
// position both must be the same State, and give the same files.
func relay(t *testing.T, records []journal.Record) *State {
	t.Helper()
	whole, handed := NewState(), NewState()
	for _, r := range records {
		if err := whole.ApplyRecord(r.Seq, r.Data); err != nil {
			t.Fatal(err)
		}
		if err := handed.ApplyRecord(r.Seq, r.Data); err != nil {
			t.Fatal(err)
		}
		a, b := marshal(t, whole), marshal(t, handed)
		if !bytes.Equal(a, b) {
			t.Fatalf("at %d from the start (-), through keyframes (+):\n%s", r.Seq, diffStates(whole, handed))
		}
		if diff := cmp.Diff(filesOf(whole), filesOf(handed)); diff != "" {
			t.Fatalf("files at %d from the start (-), through keyframes (+):\n%s", r.Seq, diff)
		}
		var err error
		if handed, err = UnmarshalState(b); err != nil {
			t.Fatalf("at %d: %v", r.Seq, err)
		}
		if r.Seq%50 != 0 {
			continue // slow
		}
		if diff := diffStates(whole, handed); diff != "" {
			t.Fatalf("at %d state (-), decoded (+):\n%s", r.Seq, diff)
		}
	}
	return whole
}

func marshal(t *testing.T, s *State) []byte {
	t.Helper()
	b, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// diffStates compares all fields, also those that are decoded from others.
func diffStates(a, b *State) string {
	return cmp.Diff(a, b, protocmp.Transform(), cmp.Exporter(func(t reflectType) bool { return true }),
		cmpopts.IgnoreFields(Map{}, "near"), // found again when it is asked for
		// What changed last: all of it, for a State that was decoded.
		cmpopts.IgnoreFields(State{}, "touched"), cmpopts.IgnoreFields(Frontend{}, "rev"), cmpopts.IgnoreFields(LB{}, "touched", "stirred", "vacated", "order", "goneLast", "forgotten"),
		cmp.FilterValues(func(byBackend, byBackend) bool { return true }, cmpopts.EquateEmpty()),
		cmp.FilterValues(func([]leftSlot, []leftSlot) bool { return true }, cmpopts.EquateEmpty()), // one that all entries left
		cmp.Comparer(func(x, y netip.AddrPort) bool { return x == y }))
}

func filesOf(s *State) map[string]string {
	files := map[string]string{}
	for _, f := range s.Files() {
		if f.Data != nil {
			files[f.Name] = string(f.Data)
		}
	}
	return files
}

func labRecords(t testing.TB) []journal.Record {
	t.Helper()
	tape, err := journal.OpenTape("../../testdata/lab.tape")
	if err != nil {
		t.Fatal(err)
	}
	defer tape.Close()
	var records []journal.Record
	err = tape.Read(t.Context(), 0, 0, func(r journal.Record) error { records = append(records, r); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestKeyframesOfTheLab(t *testing.T) {
	s := relay(t, labRecords(t))
	if len(s.Marks) != 8 || s.Baseline == nil || s.Flows == 0 || len(s.Maps) < 10 {
		t.Errorf("the tape tells %d marks, baseline %v, %d flows, %d maps", len(s.Marks), s.Baseline, s.Flows, len(s.Maps))
	}
}

func TestKeyframesOfFaults(t *testing.T) {
	s := relay(t, tapeRecords(t, faultsTape))
	if len(s.Marks) < 10 || len(s.Findings()) < 10 || len(s.missed) == 0 {
		t.Errorf("the tape tells %d marks, %d findings, %d gaps that are not over", len(s.Marks), len(s.Findings()), len(s.missed))
	}
}

func TestKeyframesOfGeneratedSessions(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { relay(t, generated(seed, 300)) })
	}
}

// Maps iterate in another order every time.
func TestSameEventsSameBytes(t *testing.T) {
	for _, records := range [][]journal.Record{labRecords(t), generated(7, 500)} {
		var first []byte
		for range 5 {
			s := NewState()
			for _, r := range records {
				if err := s.ApplyRecord(r.Seq, r.Data); err != nil {
					t.Fatal(err)
				}
			}
			b := marshal(t, s)
			if diff := cmp.Diff(filesOf(s), filesOf(s)); diff != "" {
				t.Fatalf("rendered in two ways: %s", diff)
			}
			for _, f := range s.Files() {
				b = append(b, f.Data...)
			}
			if first == nil {
				first = b
			}
			if !bytes.Equal(first, b) {
				t.Fatal("two folds of the same events differ")
			}
		}
	}
}

// What a keyframe holds is what one version of the fold made of events. When this test fails the fold makes
// something else of the same tape, or keeps more: raise FoldVersion, then write the sum that it prints.
func TestFoldVersion(t *testing.T) {
	const version, want = 3, "367b5c930106d119"
	s := NewState()
	for _, r := range labRecords(t) {
		if err := s.ApplyRecord(r.Seq, r.Data); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256(marshal(t, s))
	if got := hex.EncodeToString(sum[:8]); FoldVersion != version || got != want {
		t.Errorf("fold version %d gives the state %s of testdata/lab.tape, want version %d and %s", FoldVersion, got, version, want)
	}
}

func TestForeignStates(t *testing.T) {
	for name, m := range map[string]*eventpb.State{
		"half an entry":     {Maps: []*eventpb.MapKnown{{Map: "cilium_lb4_services_v2", KeySize: 12, ValueSize: 12, Entries: make([]byte, 25)}}},
		"no key size":       {Maps: []*eventpb.MapKnown{{Map: "x", Entries: make([]byte, 25)}}},
		"half a pending":    {Maps: []*eventpb.MapKnown{{Map: "x", KeySize: 4, HasPending: true, Pending: make([]byte, 5)}}},
		"baseline, nowhere": {Baseline: &eventpb.BaselineKnown{}},
	} {
		b, _ := proto.Marshal(m)
		if _, err := UnmarshalState(b); err == nil {
			t.Errorf("%s was decoded", name)
		}
	}
}

// A keyframe on a tape may hold 256 MiB once it is unpacked, and each of two bytes could be a thing of its own.
func TestStateOfEmptyPartsTakesLittleMemory(t *testing.T) {
	b := bytes.Repeat([]byte{byte(9)<<3 | 2, 0}, 16<<20) // a list of the State's, whose items are messages
	if d := (&eventpb.State{}).ProtoReflect().Descriptor().Fields().ByNumber(9); d == nil || !d.IsList() || d.Message() == nil {
		t.Fatal("field 9 is no list of messages")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := UnmarshalState(b)
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || got > 1 {
		t.Errorf("%d MiB allocated, %v", got, err)
	}
}

func FuzzUnmarshalState(f *testing.F) {
	s := NewState()
	for i, r := range generated(1, 120) {
		s.ApplyRecord(r.Seq, r.Data)
		if i%40 == 39 {
			b, _ := s.Marshal()
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := UnmarshalState(b)
		if err != nil {
			return
		}
		again, err := s.Marshal()
		if err != nil {
			return // names that are no UTF-8 do not come through
		}
		if s, err = UnmarshalState(again); err != nil {
			t.Fatalf("what was encoded cannot be decoded: %v", err)
		}
		if third := marshal(t, s); !bytes.Equal(again, third) {
			t.Fatal("encoded twice differs")
		}
		s.Files()
	})
}

// FuzzApplyRecord: any bytes as an event, after a whole session.
func FuzzApplyRecord(f *testing.F) {
	for _, r := range generated(3, 60) {
		f.Add(r.Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewState()
		for _, r := range generated(2, 40) {
			s.ApplyRecord(r.Seq, r.Data)
		}
		if s.ApplyRecord(1000, data) != nil {
			return
		}
		s.Files()
		whole := &eventpb.Event{}
		if proto.Unmarshal(data, whole) == nil && len(whole.GetFlows().GetFlows()) > 0 {
			lean, n, err := decodeForFold(data)
			if err != nil || n+uint64(len(lean.GetFlows().GetFlows())) != uint64(len(whole.GetFlows().GetFlows())) {
				t.Fatalf("%d flows counted, %d decoded: %v", n, len(whole.GetFlows().GetFlows()), err)
			}
		}
	})
}

// generated is a session in which everything happens that events can tell, in an order no one planned.
func generated(seed uint64, n int) []journal.Record {
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	profile, _ := profiles.FS.ReadFile("cca-datapath.yaml")
	records := make([]journal.Record, n)
	for i := range records {
		e := g.event(string(profile))
		if i == 0 {
			e = events.New(&eventpb.Session{ProfileYaml: string(profile), Sources: sourceNames})
			e.Source = "recorder"
		}
		e.Id, e.Node, e.Session, e.SeenNs = fmt.Sprint("n-", i), "n1", "s1", int64(i)*5e8
		data, err := proto.Marshal(e)
		if err != nil {
			panic(err)
		}
		records[i] = journal.Record{Seq: uint64(i + 1), Data: data}
	}
	return records
}
