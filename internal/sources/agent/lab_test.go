package agent

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"golang.org/x/sys/unix"
)

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}

// The oracle is Cilium's own tool.
func TestLabSnapshotIsWhatCiliumDbgPrints(t *testing.T) {
	sourcetest.NeedLab(t)
	r := run(t, New(Config{})).up(t)
	var services, endpoints []string
	var list []struct {
		ID   int64 `json:"id"`
		Spec struct {
			ID int64 `json:"id"`
		} `json:"spec"`
	}
	parse := func(text string) {
		t.Helper()
		list = nil
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
	}
	parse(command(t, "cilium-dbg", "service", "list", "-o", "json"))
	for _, s := range list {
		services = append(services, strconv.FormatInt(s.Spec.ID, 10))
	}
	parse(command(t, "cilium-dbg", "endpoint", "list", "-o", "json"))
	for _, e := range list {
		endpoints = append(endpoints, strconv.FormatInt(e.ID, 10))
	}
	slices.Sort(services)
	slices.Sort(endpoints)
	if diff := cmp.Diff(services, keys(r.objects("service"))); diff != "" {
		t.Errorf("services: %s", diff)
	}
	if diff := cmp.Diff(endpoints, keys(r.objects("endpoint"))); diff != "" {
		t.Errorf("endpoints: %s", diff)
	}
	// `cilium-dbg config --all -o json`, word for word.
	config, err := decode([]byte(command(t, "cilium-dbg", "config", "--all", "-o", "json")))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := encode(config)
	if diff := cmp.Diff(string(want), string(r.objects("config")[0].Json)); diff != "" {
		t.Errorf("config: %s", diff)
	}
	if n, rows := len(r.objects("frontend")), strings.Count(command(t, "cilium-dbg", "statedb", "dump"), `"RedirectTo"`); n != rows {
		t.Errorf("%d frontends, the agent dumps %d", n, rows)
	}
}

func TestLabServiceComesAndGoes(t *testing.T) {
	sourcetest.NeedLab(t)
	look := sources.NewTrigger()
	r := run(t, New(Config{Triggers: []sources.Trigger{look}})).up(t)
	command(t, "kubectl", "create", "namespace", "t-agent")
	t.Cleanup(func() { command(t, "kubectl", "delete", "namespace", "t-agent", "--wait=false") })
	command(t, "kubectl", "-n", "t-agent", "create", "service", "clusterip", "s", "--tcp=80:8080")

	of := func(o *eventpb.AgentObject) bool { return strings.Contains(string(o.Json), "t-agent/s") }
	rows := r.wait(t, "frontend", func(all []*eventpb.AgentObject) bool {
		return slices.ContainsFunc(all, func(o *eventpb.AgentObject) bool { return of(o) && o.Reconciled == "Done" })
	})
	row := rows[slices.IndexFunc(rows, of)]
	t.Logf("first seen %s at %s", row.Reconciled, time.Unix(0, row.ReconciledNs))
	select {
	case <-look:
	default:
		t.Error("no trigger")
	}
	r.wait(t, "service", func(all []*eventpb.AgentObject) bool {
		return slices.ContainsFunc(all, func(o *eventpb.AgentObject) bool { return strings.Contains(string(o.Json), `"t-agent"`) })
	})
	command(t, "kubectl", "-n", "t-agent", "delete", "service", "s")
	r.wait(t, "frontend", func(all []*eventpb.AgentObject) bool {
		return slices.ContainsFunc(all, func(o *eventpb.AgentObject) bool { return o.Deleted && o.Key == row.Key })
	})
}

// Says what an idle node costs; a figure and no condition, since it depends on what else the machine does.
func TestLabIdleCost(t *testing.T) {
	sourcetest.NeedLab(t)
	r := run(t, New(Config{})).up(t)
	r.mu.Lock()
	before := len(r.events)
	r.mu.Unlock()
	cpu, span := cpuTime(t), 20*time.Second
	<-time.After(span)
	used := cpuTime(t) - cpu
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events[before:] {
		t.Logf("event of kind %s: %v", e.GetAgent().GetKind(), keys(e.GetAgent().GetObjects()))
	}
	share := float64(used) / float64(span) * 100
	t.Logf("%v CPU in %v: %.2f %% of a core; %d events", used, span, share, len(r.events)-before)
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
	for _, f := range New(Config{}).Check(t.Context()) {
		t.Logf("%+v", f)
		if f.Err != nil {
			t.Error(f.Err)
		}
	}
}
