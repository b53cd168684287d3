package kube_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
)

// The source's objects are those that kubectl prints, by name and resourceVersion.
func TestLabObjectsAreKubectls(t *testing.T) {
	sourcetest.NeedLab(t)
	s := kube.New(kube.Config{})
	sourcetest.Run(t, s).Ready()
	for kind, args := range map[eventpb.Kind][]string{
		eventpb.Kind_KIND_SERVICE:         {"services", "-A"},
		eventpb.Kind_KIND_ENDPOINT_SLICE:  {"endpointslices", "-A"},
		eventpb.Kind_KIND_POD:             {"pods", "-A", "--field-selector=spec.nodeName=" + s.Objects(eventpb.Kind_KIND_NODE)[0].Name},
		eventpb.Kind_KIND_CILIUM_ENDPOINT: {"ciliumendpoints", "-A"},
	} {
		var list struct {
			Items []struct {
				Metadata struct{ Namespace, Name, UID string }
			}
		}
		if err := json.Unmarshal(sourcetest.Kubectl(t, "", append([]string{"get", "-o", "json"}, args...)...), &list); err != nil {
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
		id := sourcetest.Kubectl(t, "", "-n", o.Namespace, "get", "cep", o.Name, "-o", "jsonpath={.status.id} {.status.identity.id} {.status.networking.addressing[0].ipv4}")
		e := o.CiliumEndpoint
		text, _ := json.Marshal([]any{e.EndpointId, e.Identity, e.Addresses[0]})
		if got := strings.NewReplacer("[", "", "]", "", `"`, "", ",", " ").Replace(string(text)); got != string(id) {
			t.Errorf("%s: %s, kubectl says %s", o.Name, got, id)
		}
	}
}

func TestLabServiceComesAndGoes(t *testing.T) {
	sourcetest.NeedLab(t)
	s := kube.New(kube.Config{})
	r := sourcetest.Run(t, s)
	r.Ready()
	sourcetest.Namespace(t, "t-kube")
	wait := func(deleted bool) {
		t.Helper()
		for {
			e := r.Next()
			for _, o := range e.GetKube().GetObjects() {
				if e.GetKube().Kind == eventpb.Kind_KIND_SERVICE && o.Namespace == "t-kube" && o.Name == "web" && o.Deleted == deleted {
					t.Logf("deleted %t: %v before kubectl was done", deleted, time.Since(time.Unix(0, e.SeenNs)))
					return
				}
			}
		}
	}
	sourcetest.Kubectl(t, "", "-n", "t-kube", "create", "service", "clusterip", "web", "--tcp=80:8080")
	wait(false)
	for s.Object(eventpb.Kind_KIND_SERVICE, "t-kube", "web") == nil {
		<-s.Changed()
	}
	sourcetest.Kubectl(t, "", "-n", "t-kube", "delete", "service", "web")
	wait(true)
}

func TestLabCheck(t *testing.T) {
	sourcetest.NeedLab(t)
	for _, f := range kube.New(kube.Config{}).Check(t.Context()) {
		if f.Err != nil {
			t.Error(f.Err)
		}
		t.Logf("%s: %s", f.Thing, f.Seen)
	}
}
