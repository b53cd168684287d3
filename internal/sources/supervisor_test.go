package sources

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// fake runs one function for each run.
type fake struct {
	runs []func(ctx context.Context, ready func()) error
	n    int
}

func (f *fake) Name() string                    { return "fake" }
func (f *fake) Check(context.Context) []Finding { return nil }
func (f *fake) Run(ctx context.Context, _ events.Emit, ready func()) error {
	run := f.runs[min(f.n, len(f.runs)-1)]
	f.n++
	return run(ctx, ready)
}

func fails(text string) func(context.Context, func()) error {
	return func(context.Context, func()) error { return errors.New(text) }
}

func works(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	return nil
}

// supervise runs the source for a minute of the bubble's time and returns what was recorded, in words.
func supervise(t *testing.T, f *fake) []string {
	var said []string
	emit := func(ctx context.Context, list ...*eventpb.Event) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, e := range list {
			if g := e.GetGap(); g != nil {
				said = append(said, "gap of "+time.Duration(g.ToNs-g.FromNs).String()+": "+g.Detail)
			} else {
				said = append(said, e.GetStatus().State.String()[len("SOURCE_STATE_"):]+" "+e.GetStatus().Error)
			}
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		Supervise(ctx, slog.New(slog.DiscardHandler), func(string) events.Emit { return emit }, []Source{f})
	})
	return said
}

func TestSupervise(t *testing.T) {
	for _, c := range []struct {
		name string
		runs []func(context.Context, func()) error
		want []string
	}{
		{"works", []func(context.Context, func()) error{works}, []string{"UP ", "STOPPED "}},
		{"the same error is said once, and the gap when it is over",
			[]func(context.Context, func()) error{fails("no socket"), fails("no socket"), fails("no socket"), works},
			[]string{"DOWN no socket", "gap of 7s: no socket", "UP ", "STOPPED "}},
		{"another error is news",
			[]func(context.Context, func()) error{fails("no socket"), fails("refused"), works},
			[]string{"DOWN no socket", "DOWN refused", "gap of 3s: refused", "UP ", "STOPPED "}},
		{"a break after it was up",
			[]func(context.Context, func()) error{func(_ context.Context, ready func()) error { ready(); return errors.New("eof") }, works},
			[]string{"UP ", "DOWN eof", "gap of 1s: eof", "UP ", "STOPPED "}},
		{"an end by itself is a break", []func(context.Context, func()) error{func(context.Context, func()) error { return nil }, works},
			[]string{"DOWN ended by itself", "gap of 1s: ended by itself", "UP ", "STOPPED "}},
		{"a panic does not end the others", []func(context.Context, func()) error{func(context.Context, func()) error { panic("odd bytes") }, works},
			[]string{"DOWN panic: odd bytes", "gap of 1s: panic: odd bytes", "UP ", "STOPPED "}},
		{"never there", []func(context.Context, func()) error{fails("no bpffs")}, []string{"DOWN no bpffs", "STOPPED "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := supervise(t, &fake{runs: c.runs}); !slices.Equal(got, c.want) {
				t.Errorf("recorded %q\nwant %q", got, c.want)
			}
		})
	}
}
