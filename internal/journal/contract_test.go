package journal_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/journal/journaltest"
	"google.golang.org/protobuf/proto"
)

func TestJournalContract(t *testing.T) {
	journaltest.RunContract(t, func(t *testing.T, stored [][]byte) journal.Reader {
		j, err := journal.Open(t.TempDir(), journal.Options{Sync: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close(context.Background()) })
		for _, b := range stored {
			ev := &eventpb.Event{}
			if err := proto.Unmarshal(b, ev); err != nil {
				t.Fatal(err)
			}
			if err := j.Append(t.Context(), ev); err != nil {
				t.Fatal(err)
			}
		}
		return j
	})
}

func TestTapeContract(t *testing.T) {
	journaltest.RunContract(t, func(t *testing.T, stored [][]byte) journal.Reader {
		return openBytes(t, tapeOf(t, stored))
	})
}

// A tape without its index is read frame by frame, and keeps the same promises.
func TestTornTapeContract(t *testing.T) {
	journaltest.RunContract(t, func(t *testing.T, stored [][]byte) journal.Reader {
		b := tapeOf(t, stored)
		tape := openBytes(t, b[:len(b)-1])
		if tape.Torn() == nil {
			t.Error("not torn")
		}
		return tape
	})
}

func tapeOf(t testing.TB, stored [][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := journal.NewTapeWriter(&b, &eventpb.TapeHeader{ToolVersion: "v0.1.0", LastSeq: uint64(len(stored))})
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range stored {
		if err := w.Write(journal.Record{Seq: uint64(i + 1), Data: data}); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 {
			if err := w.Keyframe(uint64(i+1), 3, bytes.Repeat(data, 2)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func openBytes(t testing.TB, b []byte) *journal.Tape {
	t.Helper()
	tape, err := journal.ReadTape(bytes.NewReader(b), int64(len(b)), "test.tape")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tape.Close() })
	return tape
}
