package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// fakeStream stores ids and fails as told: fail is asked before each publish and says how many of the items are
// stored, how many of those are acknowledged, and with which error.
type fakeStream struct {
	ids       []string
	regressed []uint64 // where readers were told that the stream ends
	fail      func(items []item) (stored, acked int, err error)
}

func (f *fakeStream) publish(_ context.Context, base uint64, items []item) (int, error) {
	if base != uint64(len(f.ids)) {
		return 0, fmt.Errorf("wrong last sequence: %d", len(f.ids))
	}
	stored, acked, err := f.fail(items)
	for _, it := range items[:stored] {
		f.ids = append(f.ids, it.id)
	}
	return acked, err
}

func (f *fakeStream) last(context.Context) (uint64, error) { return uint64(len(f.ids)), nil }

// script answers one publish after the other, and then stores all.
func script(steps ...func(n int) (int, int, error)) func([]item) (int, int, error) {
	return func(items []item) (int, int, error) {
		if len(steps) == 0 {
			return len(items), len(items), nil
		}
		step := steps[0]
		steps = steps[1:]
		return step(len(items))
	}
}

var errDisk = errors.New("no space left on device")

func runWriter(t *testing.T, f *fakeStream, ids ...string) (w *writer, reopened *int) {
	t.Helper()
	reopened = new(int)
	w = &writer{
		stream: f, log: slog.New(slog.DiscardHandler),
		troubled:  func(error) {},
		tryDisk:   func() error { return nil },
		reopen:    func() (stream, error) { *reopened++; return f, nil },
		stored:    func([]Record) {},
		regressed: func(last uint64) { f.regressed = append(f.regressed, last) },
		gap: func(_ bool, g *eventpb.Gap) item {
			return item{id: fmt.Sprintf("gap of %v, %d lost", time.Since(time.Unix(0, g.FromNs)), g.Count)}
		},
	}
	r := &request{left: len(ids), done: make(chan struct{})}
	for _, id := range ids {
		r.items = append(r.items, item{id: id})
	}
	w.take(r)
	if err := w.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.done:
	default:
		t.Error("the request was not acknowledged")
	}
	return w, reopened
}

func TestWriterAfterFailures(t *testing.T) {
	all := func(n int) (int, int, error) { return n, n, nil }
	for name, c := range map[string]struct {
		steps    []func(n int) (int, int, error)
		want     []string
		reopened int
	}{
		"nothing fails": {nil, []string{"a", "b", "c"}, 0},
		"refused once": {
			[]func(int) (int, int, error){func(int) (int, int, error) { return 0, 0, errDisk }},
			[]string{"gap of 50ms, 0 lost", "a", "b", "c"}, 0,
		},
		"some acknowledged": {
			[]func(int) (int, int, error){func(int) (int, int, error) { return 1, 1, errDisk }},
			[]string{"a", "gap of 50ms, 0 lost", "b", "c"}, 0,
		},
		"stored without an answer": {
			[]func(int) (int, int, error){func(int) (int, int, error) { return 2, 0, errDisk }},
			[]string{"a", "b", "gap of 50ms, 0 lost", "c"}, 0,
		},
		"all stored without an answer": {
			[]func(int) (int, int, error){func(n int) (int, int, error) { return n, 0, errDisk }},
			[]string{"a", "b", "c", "gap of 50ms, 0 lost"}, 0,
		},
		"fails again, the gap grows": {
			[]func(int) (int, int, error){
				func(int) (int, int, error) { return 0, 0, errDisk },
				func(int) (int, int, error) { return 0, 0, errDisk },
				func(int) (int, int, error) { return 0, 0, errDisk },
			},
			[]string{"gap of 350ms, 0 lost", "a", "b", "c"}, 2,
		},
		"the gap itself is stored without an answer": {
			[]func(int) (int, int, error){
				func(int) (int, int, error) { return 0, 0, errDisk },
				func(int) (int, int, error) { return 2, 0, errDisk },
			},
			[]string{"gap of 50ms, 0 lost", "a", "gap of 150ms, 0 lost", "b", "c"}, 1,
		},
		"a duplicate": {
			[]func(int) (int, int, error){
				func(int) (int, int, error) { return 1, 1, errDuplicate }, // "b" is in the stream already
				func(int) (int, int, error) { return 0, 0, errDuplicate },
				all,
			},
			[]string{"a", "c"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeStream{fail: script(c.steps...)}
				w, reopened := runWriter(t, f, "a", "b", "c")
				if d := cmp.Diff(c.want, f.ids); d != "" {
					t.Errorf("stored: %s", d)
				}
				if *reopened != c.reopened || w.base != uint64(len(f.ids)) || w.trouble != nil {
					t.Errorf("reopened %d, base %d, trouble %v", *reopened, w.base, w.trouble)
				}
			})
		})
	}
}

// nats-server#7564: acknowledged events are gone after the server is started again. What is lost is counted, and
// said in the journal itself.
func TestWriterCountsWhatTheStreamLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStream{}
		f.fail = script(
			func(int) (int, int, error) { return 2, 2, errDisk },
			func(int) (int, int, error) { f.ids = f.ids[:1]; return 0, 0, errDisk },
		)
		runWriter(t, f, "a", "b", "c")
		if d := cmp.Diff([]string{"a", "gap of 150ms, 1 lost", "c"}, f.ids); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]uint64{1}, f.regressed); d != "" {
			t.Errorf("readers were told: %s", d)
		}
	})
}

// A disk that stays full does not keep the recorder from ending: who waits is told that it is not stored.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStream{fail: func([]item) (int, int, error) { return 0, 0, errDisk }}
		w := &writer{stream: f, log: slog.New(slog.DiscardHandler), queue: make(chan *request),
			troubled: func(error) {},
			tryDisk:  func() error { return errDisk },
			reopen:   func() (stream, error) { return nil, errDisk },
			gap:      func(bool, *eventpb.Gap) item { return item{} }}
		w.take(&request{items: []item{{id: "a"}}, left: 1, done: make(chan struct{})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.write(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err %v", err)
		}
		if tries := w.trouble.tries; tries < 10 || tries > 25 {
			t.Errorf("%d tries in a minute", tries)
		}
	})
}
