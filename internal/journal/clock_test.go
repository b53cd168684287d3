package journal

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// setClock is a clock that can be set: set goes beside the time that passes.
type setClock struct{ passed, set time.Duration }

func (c *setClock) read() (wall, mono int64) {
	return int64(1_000*time.Second + c.passed + c.set), int64(c.passed)
}

// The clock steps forth and back, and is slewed by less than counts: two steps are told, each in front of what came
// after it, with the times that stand for nothing or for two moments.
func TestClockStepsAreToldOnce(t *testing.T) {
	var c setClock
	f, told := &fakeStream{fail: script()}, []*eventpb.Gap{}
	w := &writer{stream: f, log: slog.New(slog.DiscardHandler), clock: newClock(c.read), stored: func([]Record) {}, troubled: func(error) {},
		gap: func(_ bool, g *eventpb.Gap) item { told = append(told, g); return item{id: "gap"} }}
	for i, set := range []time.Duration{0, 90, 90, 30, 30, 30} {
		c.passed += 10 * time.Second
		c.set = set * time.Second
		if i == 5 {
			c.set += 400 * time.Millisecond
		}
		w.sayStep()
		w.take(&request{items: []item{{id: fmt.Sprint(i)}}, left: 1, done: make(chan struct{})})
		if err := w.write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"0", "gap", "1", "2", "gap", "3", "4", "5"}, f.ids); d != "" {
		t.Errorf("stored: %s", d)
	}
	var got []string
	for _, g := range told {
		got = append(got, fmt.Sprint(g.Reason, " ", g.FromNs/1e9, " ", g.ToNs/1e9, " ", g.Detail))
	}
	want := []string{
		"GAP_REASON_CLOCK 1020 1110 the wall clock was set by 1m30s, or the machine slept",
		"GAP_REASON_CLOCK 1070 1130 the wall clock was set by -1m0s, or the machine slept",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("told: %s", d)
	}
}

// A step that is noticed while the journal cannot be written is told first, and neither gap is lost.
func TestClockStepWhileTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c setClock
		refuse := func(int) (int, int, error) { return 0, 0, errDisk }
		f := &fakeStream{fail: script(refuse, refuse)}
		n := 0
		w := &writer{stream: f, log: slog.New(slog.DiscardHandler), clock: newClock(c.read), stored: func([]Record) {}, troubled: func(error) {},
			tryDisk: func() error { return nil }, reopen: func() (stream, error) { return f, nil },
			gap: func(again bool, g *eventpb.Gap) item {
				if !again {
					n++
				}
				return item{id: fmt.Sprint("gap", n, " ", g.Detail)}
			}}
		c.set = -time.Hour
		w.sayStep()
		w.take(&request{items: []item{{id: "a"}}, left: 1, done: make(chan struct{})})
		if err := w.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"gap1 the wall clock was set by -1h0m0s, or the machine slept", "gap2 journal could not be written: " + errDisk.Error(), "a"}
		if d := cmp.Diff(want, f.ids); d != "" {
			t.Error(d)
		}
	})
}

// Order is the journal's, whatever the clock showed; times are kept as they were, two of one nanosecond too.
func TestTimesAreKeptAsTheyWere(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{})
	emit := j.Emitter("kube")
	seen := []int64{5_000, 9_000, 9_000, 2_000, 9_000, 7_000}
	for _, ns := range seen {
		ev := mark("x")
		ev.SeenNs = ns
		if err := emit(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	var got []int64
	if err := j.Read(t.Context(), 1, 0, func(r Record) error { got = append(got, decode(t, r.Data).SeenNs); return nil }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(seen, got); d != "" {
		t.Error(d)
	}
}
