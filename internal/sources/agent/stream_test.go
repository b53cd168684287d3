package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// frontendRow is a line as the agent streams it.
func frontendRow(rev int, status string, backends int) string {
	var list []string
	for i := range backends {
		list = append(list, fmt.Sprintf(`{"ServiceName":"cca-dp/web","Address":"10.42.0.%d:8080/TCP","PortNames":null,"Weight":100,"NodeName":"lab","Zone":null,"ClusterID":0,"Source":"k8s","State":0,"Unhealthy":false,"UnhealthyUpdatedAt":null}`, 9+i))
	}
	return fmt.Sprintf(`{"obj":{"Address":"10.43.6.119:80/TCP","Type":"ClusterIP","ServiceName":"cca-dp/web","PortName":"","ServicePort":80,"Status":{"updated-at":"2026-12-01T02:02:50.123456789Z","id":%d,"kind":"%s"},"Backends":[%s],"HealthCheckBackends":[%s],"ID":7,"RedirectTo":null},"rev":%d}`,
		rev, status, strings.Join(list, ","), strings.Join(list, ","), rev)
}

const webFrontend = "10.43.6.119:80/TCP"

func TestStreamedChanges(t *testing.T) {
	f := newFakeAgent(t)
	f.rows = map[string][]string{
		"frontends": {frontendRow(10, "Done", 2)},
		"backends":  {`{"obj":{"ServiceName":"cca-dp/web","Address":"10.42.0.9:8080/TCP","Source":"k8s","State":0},"rev":4}`},
	}
	look := sources.NewTrigger()
	// Nothing is polled again by itself: what changes comes from the streams.
	r := run(t, New(Config{Socket: f.socket, Interval: time.Hour, Triggers: []sources.Trigger{look}})).up(t)

	first := r.wait(t, "frontend", func(o []*eventpb.AgentObject) bool { return len(o) == 1 })
	want := &eventpb.AgentObject{Key: webFrontend, Reconciled: "Done", ReconciledNs: 1796090570123456789}
	if got := first[0]; got.Key != want.Key || got.Reconciled != want.Reconciled || got.ReconciledNs != want.ReconciledNs {
		t.Errorf("frontend %v, want %v", got, want)
	}
	if diff := cmp.Diff([]string{"10.42.0.9:8080/TCP cca-dp/web k8s"}, keys(r.objects("backend"))); diff != "" {
		t.Errorf("backends: %s", diff)
	}

	f.push("frontends", `{"obj":null,"rev":0}`) // keeps the connection alive
	f.push("frontends", frontendRow(11, "Pending", 3))
	f.push("frontends", frontendRow(12, "Done", 3))
	f.push("frontends", strings.TrimSuffix(frontendRow(13, "Done", 3), "}")+`,"deleted":true}`)
	got := r.wait(t, "frontend", func(o []*eventpb.AgentObject) bool { return len(o) == 4 })
	var states []string
	for _, o := range got {
		states = append(states, fmt.Sprint(o.Reconciled, o.Deleted))
	}
	if diff := cmp.Diff([]string{"Donefalse", "Pendingfalse", "Donefalse", "true"}, states); diff != "" {
		t.Errorf("states: %s", diff)
	}
	select {
	case <-look:
	default:
		t.Error("the trigger was not fired before the event was stored")
	}
}

func TestStreamedChangeRereadsServices(t *testing.T) {
	f := newFakeAgent(t)
	f.rows = map[string][]string{"frontends": {frontendRow(10, "Done", 2)}}
	r := run(t, New(Config{Socket: f.socket, Interval: time.Hour})).up(t)
	f.set("/v1/service", strings.Replace(fixture(t, "services.json"), `"active"`, `"terminating"`, 2))
	f.push("frontends", frontendRow(11, "Done", 3))
	r.wait(t, "service", func(o []*eventpb.AgentObject) bool { return len(o) > 5 })
}

func TestRowsTold(t *testing.T) {
	table := newTables()[0]
	change := func(rev int, status string, backends int) *row {
		return parseRow(t, frontendRow(rev, status, backends))
	}
	if _, err := table.snapshot([]row{*change(10, "Done", 2)}); err != nil {
		t.Fatal(err)
	}
	other := func(rev int) *row {
		return parseRow(t, strings.Replace(frontendRow(rev, "Done", 1), "10.43.6.119:80", "10.43.9.9:443", 1))
	}
	deleted := func(r *row) *row { r.Deleted = true; return r }
	for _, tc := range []struct {
		name string
		row  *row
		told bool
	}{
		{"the snapshot's row again, as a stream begins", change(10, "Done", 2), false},
		{"older than the snapshot", change(9, "Pending", 1), false},
		{"gone before the snapshot", other(8), false},
		{"new revision, nothing else", change(11, "Done", 2), false},
		{"status", change(12, "Pending", 2), true},
		{"backends", change(13, "Pending", 3), true},
		{"another frontend", other(14), true},
		{"gone", deleted(other(15)), true},
		{"gone, told twice", deleted(other(16)), false},
	} {
		got, err := table.apply(tc.row)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if (got != nil) != tc.told {
			t.Errorf("%s: told %v, want %v", tc.name, got != nil, tc.told)
		}
	}
}

func parseRow(t *testing.T, line string) *row {
	t.Helper()
	body := strings.NewReader(line + "\n")
	out := make(chan change, 1)
	if err := follow(t.Context(), &table{name: "frontends"}, body, out); err == nil {
		t.Fatal("the end of a stream is no error")
	}
	r := (<-out).row
	return &r
}

// The reconciler's error stays: it is the reason why a map is not as it should be.
func TestReconcilerErrorIsKept(t *testing.T) {
	table := newTables()[0]
	o, err := table.read(parseRow(t, strings.Replace(frontendRow(1, "Error", 0), `"kind"`, `"error":"update map: argument list too long","kind"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if o.Reconciled != "Error" || !strings.Contains(string(o.Json), `"Status":{"error":"update map: argument list too long"}`) {
		t.Errorf("row %v", o)
	}
}

func TestBrokenLinesEndTheRunWithAnError(t *testing.T) {
	f := newFakeAgent(t)
	f.rows = map[string][]string{}
	r := run(t, New(Config{Socket: f.socket, Interval: time.Hour})).up(t)
	f.push("backends", `{"obj":{"no":"address"},"rev":3}`)
	if err := r.broke(t); err == nil || !strings.Contains(err.Error(), "no address") {
		t.Errorf("Run = %v", err)
	}
}
