// Package journaltest holds what every reader of records promises.
package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

// Opener stores the events' bytes at positions 1, 2, 3 … and returns a reader of them.
type Opener func(t *testing.T, stored [][]byte) journal.Reader

// RunContract holds a reader to journal.Reader's promises.
func RunContract(t *testing.T, open Opener) {
	t.Run("empty", func(t *testing.T) { empty(t, open(t, nil)) })
	stored := Events(500)
	r := open(t, stored)
	t.Run("bounds", func(t *testing.T) {
		if first, last, err := r.Bounds(); first != 1 || last != 500 || err != nil {
			t.Errorf("bounds %d %d %v, want 1 500", first, last, err)
		}
	})
	t.Run("ranges", func(t *testing.T) { ranges(t, r, stored) })
	t.Run("callback's error ends it", func(t *testing.T) {
		stop, n := errors.New("stop"), 0
		err := r.Read(t.Context(), 10, 0, func(journal.Record) error { n++; return stop })
		if err != stop || n != 1 {
			t.Errorf("err %v after %d", err, n)
		}
	})
	t.Run("context ends it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Read(ctx, 1, 0, func(journal.Record) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("err %v: a read that was cut short must not look whole", err)
		}
	})
}

func empty(t *testing.T, r journal.Reader) {
	if first, last, err := r.Bounds(); last >= first || err != nil {
		t.Errorf("bounds %d %d %v", first, last, err)
	}
	err := r.Read(t.Context(), 0, 0, func(r journal.Record) error { return fmt.Errorf("record %d", r.Seq) })
	if err != nil {
		t.Error(err)
	}
}

func ranges(t *testing.T, r journal.Reader, stored [][]byte) {
	for _, c := range []struct{ from, to, first, last uint64 }{
		{0, 0, 1, 500}, {1, 500, 1, 500}, {1, 1, 1, 1}, {500, 500, 500, 500}, {137, 402, 137, 402},
		{490, 1000, 490, 500}, {501, 0, 1, 0}, {501, 600, 1, 0}, {7, 6, 1, 0},
	} {
		next := c.first
		err := r.Read(t.Context(), c.from, c.to, func(rec journal.Record) error {
			if rec.Seq != next {
				return fmt.Errorf("position %d where %d belongs", rec.Seq, next)
			}
			if !bytes.Equal(rec.Data, stored[rec.Seq-1]) {
				return fmt.Errorf("record %d is not as stored", rec.Seq)
			}
			next++
			return nil
		})
		if err != nil || next != c.last+1 {
			t.Errorf("read %d to %d: ended before %d, %v", c.from, c.to, next, err)
		}
	}
}

// Events makes n events of many sizes, a few seconds apart; some have fields of a newer version.
func Events(n int) [][]byte {
	stored := make([][]byte, n)
	for i := range stored {
		ev := events.New(&eventpb.Mark{Text: string(bytes.Repeat([]byte{'a' + byte(i%26)}, i*i%40_000))})
		ev.Id, ev.Node, ev.Source, ev.SeenNs = fmt.Sprint("n1-test-r-", i+1), "n1", "test", Start+int64(i)*Step
		if i%7 == 0 {
			ev.ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 1, 'n'})
		}
		stored[i], _ = proto.Marshal(ev)
	}
	return stored
}

// Start and Step are the times of Events, in nanoseconds: the first, and from one to the next.
const (
	Start = int64(1_700_000_000_000_000_000)
	Step  = int64(3_000_000_000)
)
