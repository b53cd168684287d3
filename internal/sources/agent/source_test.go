package agent

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

const fast = 5 * time.Millisecond

func TestSnapshotIsCompletePerKind(t *testing.T) {
	r := run(t, New(Config{Socket: newFakeAgent(t).socket, Interval: fast})).up(t)
	var kinds []string
	for _, e := range r.events[:4] {
		if !e.GetAgent().GetComplete() {
			t.Errorf("%s is not complete", e.GetAgent().GetKind())
		}
		kinds = append(kinds, e.GetAgent().GetKind())
	}
	if diff := cmp.Diff([]string{"status", "config", "endpoint", "service"}, kinds); diff != "" {
		t.Errorf("kinds: %s", diff)
	}
	// As `cilium-dbg endpoint list` and `service list` of the same moment have them.
	if diff := cmp.Diff([]string{"113", "1486", "1664", "2725", "419", "574", "779"}, keys(r.objects("endpoint"))); diff != "" {
		t.Errorf("endpoints: %s", diff)
	}
}

func TestFieldsThatFilesNeedAreKept(t *testing.T) {
	r := run(t, New(Config{Socket: newFakeAgent(t).socket, Interval: fast})).up(t)
	for _, tc := range []struct {
		kind, key string
		path      []string
		want      any
	}{
		// Each as `cilium-dbg status --verbose`, `config --all` and `endpoint get` printed it.
		{"status", "", []string{"kube-proxy-replacement", "mode"}, "True"},
		{"status", "", []string{"kube-proxy-replacement", "features", "socketLB", "enabled"}, true},
		{"status", "", []string{"kube-proxy-replacement", "features", "bpfSocketLBHostnsOnly"}, nil},
		{"status", "", []string{"clock-source", "mode"}, "ktime"},
		{"status", "", []string{"cilium", "state"}, "Ok"},
		{"status", "", []string{"bpf-maps", "dynamic-size-ratio"}, 0.0025},
		{"status", "", []string{"hubble", "observer", "max-flows"}, 4095.0},
		{"config", "", []string{"ServiceNoBackendResponse"}, "reject"},
		{"config", "", []string{"options", "Debug"}, "Enabled"},
		{"endpoint", "2725", []string{"status", "networking", "interface-name"}, "lxc5ec41ff2c33f"},
		{"endpoint", "2725", []string{"status", "networking", "interface-index"}, 27.0},
		{"endpoint", "2725", []string{"status", "identity", "id"}, 40847.0},
		{"endpoint", "2725", []string{"status", "state"}, "ready"},
		{"endpoint", "2725", []string{"status", "policy", "realized", "policy-revision"}, 1.0},
		{"service", "8", []string{"spec", "flags", "type"}, "NodePort"},
		{"service", "8", []string{"spec", "frontend-address", "port"}, 30780.0},
	} {
		if got := at(t, find(t, r.objects(tc.kind), tc.key), tc.path...); got != tc.want {
			t.Errorf("%s %s %v = %v, want %v", tc.kind, tc.key, tc.path, got, tc.want)
		}
	}
}

func find(t *testing.T, objects []*eventpb.AgentObject, key string) *eventpb.AgentObject {
	t.Helper()
	for _, o := range objects {
		if o.Key == key {
			return o
		}
	}
	t.Fatalf("no object %q in %v", key, keys(objects))
	return nil
}

func at(t *testing.T, o *eventpb.AgentObject, path ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(o.Json, &v); err != nil {
		t.Fatal(err)
	}
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// What changes by itself on an idle node is no event: the next event is the change that follows.
func TestNoiseIsNoEvent(t *testing.T) {
	f := newFakeAgent(t)
	r := run(t, New(Config{Socket: f.socket, Interval: fast})).up(t)
	noisy := strings.NewReplacer("2026-12-01T02:02", "2026-12-01T09:09", `"success-count":1`, `"success-count":7`, `"seen-flows":2583`, `"seen-flows":99999`)
	f.set("/v1/healthz", noisy.Replace(fixture(t, "status.json")))
	f.set("/v1/endpoint", noisy.Replace(fixture(t, "endpoints.json")))
	f.set("/v1/service", strings.Replace(fixture(t, "services.json"), `"state":"active"`, `"state":"terminating"`, 2))
	r.wait(t, "service", func(o []*eventpb.AgentObject) bool { return len(o) > 5 })
	f.set("/v1/endpoint", strings.Replace(fixture(t, "endpoints.json"), `"state":"ready"}}`, `"state":"disconnecting"}}`, 1))
	r.wait(t, "endpoint", func(o []*eventpb.AgentObject) bool { return len(o) == 8 })
	if n := len(r.objects("status")); n != 1 {
		t.Errorf("%d status objects, want 1", n)
	}
}

func TestChangesAndDeletes(t *testing.T) {
	f := newFakeAgent(t)
	look := sources.NewTrigger()
	r := run(t, New(Config{Socket: f.socket, Interval: fast, Triggers: []sources.Trigger{look}})).up(t)
	var services []json.RawMessage
	if err := json.Unmarshal([]byte(fixture(t, "services.json")), &services); err != nil {
		t.Fatal(err)
	}
	// Service 8, the NodePort's first, goes; nothing else changes.
	rest, _ := json.Marshal(services[1:])
	f.set("/v1/service", string(rest))
	got := r.wait(t, "service", func(o []*eventpb.AgentObject) bool { return len(o) > 5 })
	if last := got[5]; len(got) != 6 || last.Key != "8" || !last.Deleted {
		t.Errorf("changes %v, want the delete of 8", got[5:])
	}
	select {
	case <-look:
	case <-time.After(10 * time.Second):
		t.Error("trigger was not fired")
	}
}

func TestRestartEndsRunAndTheNextStartsComplete(t *testing.T) {
	for _, streams := range []bool{false, true} {
		f := newFakeAgent(t)
		if streams {
			f.rows = map[string][]string{}
		}
		s := New(Config{Socket: f.socket, Interval: fast})
		r := run(t, s).up(t)
		f.stop()
		var trouble *events.Trouble
		if err := r.broke(t); !errors.As(err, &trouble) || !strings.Contains(trouble.Thing, f.socket) || trouble.Mend == "" {
			t.Fatalf("streams %v: Run returned %v, want a Trouble that names the socket and a mend", streams, err)
		}
		f.start()
		again := run(t, s).up(t)
		if e := again.events[0].GetAgent(); !e.GetComplete() || e.GetKind() != "status" {
			t.Errorf("streams %v: second run begins with %v", streams, e)
		}
	}
}

func TestRunEndsWithContext(t *testing.T) {
	f := newFakeAgent(t)
	f.rows = map[string][]string{"frontends": {frontendRow(1, "Done", 4)}}
	r := run(t, New(Config{Socket: f.socket, Interval: fast})).up(t)
	r.end()
	if err := r.broke(t); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := newFakeAgent(t)
	other.set("/v1/healthz", `{"hello":1}`)
	html := newFakeAgent(t)
	html.set("/v1/healthz", `<html>`)
	for _, tc := range []struct{ name, socket, cause, mend string }{
		{"absent", filepath.Join(dir, "none.sock"), "no such socket", "--agent"},
		{"nobody listens", stale, "nothing listens", "agent to come back"},
		{"another server", other.socket, "not a Cilium agent's", "--agent"},
		{"no JSON", html.socket, "invalid character", "--agent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := New(Config{Socket: "unix://" + tc.socket}).Check(t.Context())
			if len(found) != 1 || found[0].Err == nil {
				t.Fatalf("Check = %+v, want one error", found)
			}
			for _, part := range []string{tc.socket, tc.cause, tc.mend} {
				if !strings.Contains(found[0].Err.Error(), part) {
					t.Errorf("%q does not say %q", found[0].Err, part)
				}
			}
		})
	}
}

func TestCheckSeesModeAndTables(t *testing.T) {
	f := newFakeAgent(t)
	found := New(Config{Socket: f.socket}).Check(t.Context())
	if len(found) != 2 || !strings.Contains(found[0].Seen, "kube-proxy replacement True") || !strings.Contains(found[1].Seen, "polling only") {
		t.Errorf("without streams: %+v", found)
	}
	f.rows = map[string][]string{"frontends": {frontendRow(1, "Done", 4)}}
	found = New(Config{Socket: f.socket}).Check(t.Context())
	if found[1].Seen != "1 frontends, 0 backends" {
		t.Errorf("with streams: %+v", found[1])
	}
}

func TestAnswerWithoutIDIsAnErrorNotAPanic(t *testing.T) {
	for _, body := range []string{`[{}]`, `[null]`, `{"a":1}`, `[1]`, ``, `[{"spec":7}]`} {
		for _, r := range resources {
			if _, err := newList(r).diff([]byte(body)); err == nil {
				t.Errorf("%s: %q was taken", r.kind, body)
			}
		}
	}
}

func TestNothingIsAList(t *testing.T) {
	for _, body := range []string{"null\n", "[]"} {
		delta, err := newList(resources[3]).diff([]byte(body))
		if err != nil || !delta.GetComplete() || len(delta.GetObjects()) != 0 {
			t.Errorf("%q: %v, %v", body, delta, err)
		}
	}
}

// A frontend that is not in the maps has no id yet; two of them are two services.
func TestServicesWithoutID(t *testing.T) {
	l := newList(resources[3])
	delta, err := l.diff([]byte(`[{"spec":{"frontend-address":{"ip":"10.43.0.9","port":80,"protocol":"TCP","scope":"external"}}},
		{"spec":{"frontend-address":{"ip":"10.43.0.9","port":81,"protocol":"TCP","scope":"external"}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0 10.43.0.9:80/TCP/external", "0 10.43.0.9:81/TCP/external"}, keys(delta.Objects)); diff != "" {
		t.Error(diff)
	}
}
