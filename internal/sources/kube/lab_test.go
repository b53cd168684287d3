package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube"
)

// needLab skips without TAPEDECK_LAB=1; with it, a missing cluster fails the test. To be run by lab/exec.
func needLab(t *testing.T) {
	t.Helper()
	if os.Getenv("TAPEDECK_LAB") != "1" {
		t.Skip("needs the one-node cluster of lab/; set TAPEDECK_LAB=1")
	}
}

func kubectl(t *testing.T, stdin string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// startKube runs the source against the real cluster and returns its events.
func startKube(t *testing.T) (*kube.Source, <-chan *eventpb.Event) {
	t.Helper()
	s := kube.New(kube.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	out, ready, done := make(chan *eventpb.Event, 10000), make(chan struct{}), make(chan error, 1)
	emit := func(_ context.Context, list ...*eventpb.Event) error {
		for _, e := range list {
			out <- e
		}
		return nil
	}
	go func() { done <- s.Run(ctx, emit, func() { close(ready) }) }()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("the source ended: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the source is not ready")
	}
	return s, out
}

// The source's objects are those that kubectl prints, by name and resourceVersion.
func TestLabObjectsAreKubectls(t *testing.T) {
	needLab(t)
	s, _ := startKube(t)
	for kind, args := range map[eventpb.Kind][]string{
		eventpb.Kind_KIND_SERVICE:         {"services", "-A"},
		eventpb.Kind_KIND_ENDPOINT_SLICE:  {"endpointslices", "-A"},
		eventpb.Kind_KIND_POD:             {"pods", "-A", "--field-selector=spec.nodeName=" + s.NodeName()},
		eventpb.Kind_KIND_CILIUM_ENDPOINT: {"ciliumendpoints", "-A"},
	} {
		var list struct {
			Items []struct {
				Metadata struct{ Namespace, Name, UID string }
			}
		}
		if err := json.Unmarshal(kubectl(t, "", append([]string{"get", "-o", "json"}, args...)...), &list); err != nil {
			t.Fatal(err)
		}
		want, got := map[string]string{}, map[string]string{}
		for _, i := range list.Items {
			want[i.Metadata.Namespace+"/"+i.Metadata.Name] = i.Metadata.UID
		}
		for _, o := range s.Objects(kind) {
			got[o.Namespace+"/"+o.Name] = o.Uid
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v: %s", kind, d)
		}
		t.Logf("%v: %d objects", kind, len(got))
	}
	for _, o := range s.Objects(eventpb.Kind_KIND_CILIUM_ENDPOINT) {
		id := kubectl(t, "", "-n", o.Namespace, "get", "cep", o.Name, "-o", "jsonpath={.status.id} {.status.identity.id} {.status.networking.addressing[0].ipv4}")
		e := o.CiliumEndpoint
		text, _ := json.Marshal([]any{e.EndpointId, e.Identity, e.Addresses[0]})
		if got := strings.NewReplacer("[", "", "]", "", `"`, "", ",", " ").Replace(string(text)); got != string(id) {
			t.Errorf("%s: %s, kubectl says %s", o.Name, got, id)
		}
	}
}

func TestLabServiceComesAndGoes(t *testing.T) {
	needLab(t)
	s, out := startKube(t)
	kubectl(t, "", "create", "namespace", "t-kube")
	t.Cleanup(func() { kubectl(t, "", "delete", "namespace", "t-kube", "--wait=false") })
	wait := func(deleted bool) {
		t.Helper()
		for late := time.After(10 * time.Second); ; {
			select {
			case e := <-out:
				for _, o := range e.GetKube().GetObjects() {
					if o.Namespace == "t-kube" && o.Name == "web" && o.Service != nil || o.Deleted && o.Name == "web" && deleted {
						if o.Deleted == deleted {
							t.Logf("deleted %t: %v before kubectl was done", deleted, time.Since(time.Unix(0, e.SeenNs)))
							return
						}
					}
				}
			case <-late:
				t.Fatal("no event")
			}
		}
	}
	kubectl(t, "", "-n", "t-kube", "create", "service", "clusterip", "web", "--tcp=80:8080")
	wait(false)
	for s.Object(eventpb.Kind_KIND_SERVICE, "t-kube", "web") == nil {
		<-s.Changed()
	}
	kubectl(t, "", "-n", "t-kube", "delete", "service", "web")
	wait(true)
}

func TestLabCheck(t *testing.T) {
	needLab(t)
	for _, f := range kube.New(kube.Config{}).Check(t.Context()) {
		if f.Err != nil {
			t.Error(f.Err)
		}
		t.Logf("%s: %s", f.Thing, f.Seen)
	}
}
