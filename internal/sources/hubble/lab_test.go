package hubble

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/testing/protocmp"
)

// The oracle is Hubble's own tool: every flow that it prints is recorded, and restored the same.
func TestLabFlowsAreWhatHubbleObserves(t *testing.T) {
	sourcetest.NeedLab(t)
	look := sources.NewTrigger()
	s := New(Config{Triggers: []sources.Trigger{look}})
	r := run(t, s).up(t)
	out, err := exec.Command("hubble", "observe", "--server", DefaultAddress, "--last", "200", "-o", "jsonpb").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "flows.jsonl")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	observed := fixtureFlows(t, file)
	last := observed[len(observed)-1]
	got := flowsOf(r.wait(t, func(e []*eventpb.Event) bool {
		all := flowsOf(e)
		return slices.ContainsFunc(all[max(0, len(all)-400):], func(f *flowpb.Flow) bool { return f.GetUuid() == last.GetUuid() })
	}))
	byID := map[string]int{}
	for i, f := range got {
		if _, ok := byID[f.GetUuid()]; ok {
			t.Errorf("flow %s was recorded twice", f.GetUuid())
		}
		byID[f.GetUuid()] = i
	}
	for _, want := range observed {
		i, ok := byID[want.GetUuid()]
		if !ok {
			t.Errorf("flow %s of %s was not recorded", want.GetUuid(), want.GetTime().AsTime())
			continue
		}
		if diff := cmp.Diff(want, got[i], protocmp.Transform()); diff != "" {
			t.Errorf("flow: %s", diff)
		}
	}
	t.Logf("%d flows in the ring and after, gaps %v", len(got), gapsOf(r.events))

	// A second run goes on where the first stood: nothing twice, nothing missed.
	r.end()
	<-r.done
	again := run(t, s).up(t)
	more := again.wait(t, count(1))
	for _, f := range flowsOf(more) {
		if _, ok := byID[f.GetUuid()]; ok && !f.GetTime().AsTime().After(last.GetTime().AsTime()) {
			t.Errorf("flow %s came again", f.GetUuid())
		}
	}
	if gaps := gapsOf(more); len(gaps) > 0 {
		t.Errorf("gaps %v", gaps)
	}
}

func TestLabCost(t *testing.T) {
	sourcetest.NeedLab(t)
	r := run(t, New(Config{})).up(t)
	r.mu.Lock()
	before := len(flowsOf(r.events))
	r.mu.Unlock()
	cpu, span := cpuTime(t), 20*time.Second
	<-time.After(span)
	used := cpuTime(t) - cpu
	r.mu.Lock()
	defer r.mu.Unlock()
	flows := len(flowsOf(r.events)) - before
	share := float64(used) / float64(span) * 100
	t.Logf("%v CPU in %v: %.2f %% of a core for %.1f flows/s in %d events", used, span, share, float64(flows)/span.Seconds(), len(r.events))
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestLabCheck(t *testing.T) {
	sourcetest.NeedLab(t)
	for _, address := range []string{DefaultAddress, "192.168.96.10:4244"} {
		for _, f := range New(Config{Address: address}).Check(t.Context()) {
			t.Logf("%+v", f)
			if f.Err != nil && address == DefaultAddress {
				t.Error(f.Err)
			}
		}
	}
}
