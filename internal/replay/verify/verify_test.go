package verify

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

// No bit of a tape can change unnoticed, wherever it is.
func TestEveryChangedBitIsNoticed(t *testing.T) {
	whole, err := os.ReadFile("../../../testdata/lab.tape")
	if err != nil {
		t.Fatal(err)
	}
	at := []int{0, 4, 8, 16, 20, 24}
	for i := range 60 {
		at = append(at, len(whole)*i/60+i, len(whole)-1-i*4)
	}
	for _, i := range at {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		tape, err := journal.ReadTape(bytes.NewReader(b), int64(len(b)), "changed.tape")
		if err != nil {
			continue // refused at once
		}
		if r, err := Tape(t.Context(), tape); err == nil && r.Whole {
			t.Errorf("byte %d of %d was changed and nothing is said", i, len(b))
		}
		tape.Close()
	}
}

func TestWhatEventsSayOfThemselves(t *testing.T) {
	mark := func(id string, n uint64) *eventpb.Event {
		e := events.New(&eventpb.Mark{Text: "m"})
		e.Id, e.Source, e.SourceSeq, e.Session = id, "recorder", n, "s"
		return e
	}
	newer := mark("c", 3)
	newer.Body = nil
	newer.ProtoReflect().SetUnknown([]byte{0x9a, 0x06, 0x00})
	cut := events.New(&eventpb.MapDeltas{Maps: []*eventpb.MapDelta{{Map: "cilium_lxc", KeySize: 20, ValueSize: 48, Upserts: make([]byte, 67)}}})
	cut.Id, cut.Source, cut.SourceSeq, cut.Session = "d", "bpfmap", 1, "s"
	list := map[uint64]*eventpb.Event{1: mark("a", 1), 2: mark("a", 2), 5: newer, 6: cut, 7: mark("e", 7)}
	path := filepath.Join(t.TempDir(), "a.tape")
	err := journal.WriteTapeFile(path, &eventpb.TapeHeader{SessionId: "s", FirstSeq: 1, LastSeq: 7}, func(w *journal.TapeWriter) error {
		for seq := uint64(1); seq <= 7; seq++ {
			if e := list[seq]; e != nil {
				data, err := proto.Marshal(e)
				if err != nil {
					return err
				}
				if err := w.Write(journal.Record{Seq: seq, Data: data}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tape, err := journal.OpenTape(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tape.Close()
	r, err := Tape(t.Context(), tape)
	if err != nil || r.Whole {
		t.Fatalf("whole %v, %v", r.Whole, err)
	}
	want := map[string]string{
		"positions":    "seq 3 to 4 are not there",
		"ids":          "seq 2 has the id a of seq 1",
		"source order": "seq 7 is number 7 of recorder, after number 3",
		"events":       "seq 6, map cilium_lxc: 67 and 0 bytes are not whole entries",
		"kinds":        "seq 5, of recorder, is of a kind that this version does not know",
	}
	for _, c := range r.Checks {
		if got := strings.Join(c.Problems, "\n"); got != want[c.Name] {
			t.Errorf("%s: %q, want %q", c.Name, got, want[c.Name])
		}
	}
}
