package agent

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// What a stream brought right before it broke is recorded, though the window it waits in is not over.
func TestLastChangeBeforeABreakIsKept(t *testing.T) {
	f := newFakeAgent(t)
	f.rows = map[string][]string{"frontends": {frontendRow(10, "Done", 2)}, "backends": {}}
	r := run(t, New(Config{Socket: f.socket, Interval: time.Hour})).up(t)
	f.push("frontends", frontendRow(11, "Pending", 3))
	f.endStreams("frontends")
	if err := r.broke(t); err == nil {
		t.Error("the end of the streams is no break")
	}
	if got := r.objects("frontend"); len(got) != 2 || got[1].Reconciled != "Pending" {
		t.Errorf("frontends %v", got)
	}
}

// The agent goes, and comes back without one of its frontends; or its streams alone break. Either way it is picked up
// again: every table complete, no row twice, none that is gone, and the time between is a gap.
func TestAgentIsPickedUpAgain(t *testing.T) {
	other := strings.ReplaceAll(frontendRow(9, "Done", 1), "10.43.6.119:80", "10.43.9.9:443")
	for name, outage := range map[string]func(*fakeAgent, func()){
		"agent restarts": func(f *fakeAgent, act func()) { f.stop(); act(); f.start() },
		"streams break":  func(f *fakeAgent, act func()) { act(); f.endStreams("backends") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAgent(t)
			f.rows = map[string][]string{"frontends": {other, frontendRow(10, "Done", 2)}, "backends": {}}
			out := newTape()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				s := New(Config{Socket: f.socket, Interval: fast})
				sources.Supervise(ctx, slog.New(slog.DiscardHandler), func(string) events.Emit { return out.emit }, []sources.Source{s})
			}()
			defer func() { cancel(); <-done }()
			out.wait(t, "frontend", func(o []*eventpb.AgentObject) bool { return len(o) == 2 })
			outage(f, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.rows["frontends"] = []string{frontendRow(11, "Done", 3)} // revisions may begin anew as well
			})
			out.wait(t, "frontend", func(o []*eventpb.AgentObject) bool { return len(o) == 3 })
			f.push("frontends", frontendRow(12, "Pending", 3))
			out.wait(t, "frontend", func(o []*eventpb.AgentObject) bool { return len(o) == 4 })
			checkPickedUp(t, out)
		})
	}
}

func checkPickedUp(t *testing.T, out *tape) {
	out.mu.Lock()
	list := slices.Clone(out.events)
	out.mu.Unlock()
	var lists [][]string // the complete lists of frontends
	var gaps []*eventpb.Gap
	for _, e := range list {
		if a := e.GetAgent(); a.GetKind() == "frontend" && a.Complete {
			lists = append(lists, keys(a.Objects))
		}
		if g := e.GetGap(); g != nil {
			gaps = append(gaps, g)
		}
	}
	want := [][]string{{webFrontend, "10.43.9.9:443/TCP"}, {webFrontend}}
	if d := cmp.Diff(want, lists); d != "" {
		t.Errorf("complete lists: %s", d)
	}
	if len(gaps) != 1 || gaps[0].Reason != eventpb.GapReason_GAP_REASON_SOURCE_DOWN || gaps[0].FromNs >= gaps[0].ToNs {
		t.Errorf("gaps %v", gaps)
	}
}

// An agent that starts anew counts its revisions anew: rows of a lower revision than before are not old ones.
func TestRevisionsBeginAnew(t *testing.T) {
	f := newFakeAgent(t)
	f.rows = map[string][]string{"frontends": {frontendRow(1000, "Done", 2)}, "backends": {}}
	s := New(Config{Socket: f.socket, Interval: time.Hour})
	r := run(t, s).up(t)
	f.stop()
	r.broke(t)
	f.rows["frontends"] = []string{frontendRow(3, "Done", 2)}
	f.start()
	again := run(t, s).up(t)
	f.push("frontends", frontendRow(4, "Pending", 3))
	again.wait(t, "frontend", func(o []*eventpb.AgentObject) bool { return len(o) == 2 && o[1].Reconciled == "Pending" })
}
