package kube

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube/kubetest"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The API client pools its connections; one that was busy a moment ago outlives the run that closed the idle ones.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
}

// running is the source under test, whose events are looked at by kind.
type running struct {
	*sourcetest.Running
	t *testing.T
}

func start(t *testing.T, s *Source) *running {
	t.Helper()
	return &running{sourcetest.Run(t, s), t}
}

// next is the next event of a kind; the others on the way are kept out. Gaps count as every kind's.
func (r *running) next(kind eventpb.Kind) *eventpb.Event {
	r.t.Helper()
	for {
		e := r.Next()
		if k := e.GetKube(); k == nil || k.Kind == kind {
			return e
		}
	}
}

// line writes an event's objects as +namespace/name, -namespace/name, "all" in front of a complete list.
func line(e *eventpb.Event) string {
	if g := e.GetGap(); g != nil {
		return "gap " + strings.TrimPrefix(g.Reason.String(), "GAP_REASON_") + ": " + g.Detail
	}
	var b strings.Builder
	if e.GetKube().Complete {
		b.WriteString("all ")
	}
	for _, o := range e.GetKube().Objects {
		sign := "+"
		if o.Deleted {
			sign = "-"
		}
		fmt.Fprintf(&b, "%s%s/%s@%s ", sign, o.Namespace, o.Name, o.ResourceVersion)
	}
	return strings.TrimSpace(b.String())
}

func (r *running) want(kind eventpb.Kind, want string) {
	r.t.Helper()
	if got := line(r.next(kind)); got != want {
		r.t.Fatalf("got %q, want %q", got, want)
	}
}

const (
	services = eventpb.Kind_KIND_SERVICE
	slicesK  = eventpb.Kind_KIND_ENDPOINT_SLICE
	pods     = eventpb.Kind_KIND_POD
	ciliumEP = eventpb.Kind_KIND_CILIUM_ENDPOINT
)

func serviceJSON(name string, port int) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":"u-%s"},"spec":{"ports":[{"port":%d}]}}`, name, name, port)
}

func TestListsThenChanges(t *testing.T) {
	api := kubetest.New(t)
	web := api.Put("services", serviceJSON("web", 80))
	trigger := sources.NewTrigger()
	s := New(Config{Kubeconfig: api.Kubeconfig(t), Triggers: []sources.Trigger{trigger}})
	r := start(t, s)
	r.want(services, "all +shop/web@"+web)
	r.Ready()
	<-s.Synced()
	<-trigger

	changed := s.Changed()
	db := api.Put("services", serviceJSON("db", 5432))
	r.want(services, "+shop/db@"+db)
	<-trigger
	<-changed
	if got := s.Objects(services); len(got) != 2 || got[0].Name != "db" || got[1].Name != "web" {
		t.Errorf("objects %v, want db and web in order", got)
	}
	// The same facts under a new version are no change; a real one behind it comes alone.
	api.Put("services", serviceJSON("db", 5432))
	web = api.Put("services", serviceJSON("web", 8080))
	r.want(services, "+shop/web@"+web)
	changed = s.Changed()
	api.Remove("services", "shop/db")
	r.want(services, "-shop/db@"+fmt.Sprint(api.Revision()))
	<-changed
	if s.Object(services, "shop", "db") != nil {
		t.Error("a deleted Service is still an object of the cluster")
	}
}

func TestEveryKindIsListedBeforeReady(t *testing.T) {
	api := kubetest.New(t)
	r := start(t, New(Config{Kubeconfig: api.Kubeconfig(t)}))
	r.Ready()
	got := map[string]bool{}
	for _, e := range r.Emitted() {
		k := e.GetKube()
		got[k.Kind.String()] = k.Complete
	}
	want := map[string]bool{"KIND_SERVICE": true, "KIND_ENDPOINT_SLICE": true, "KIND_POD": true, "KIND_NODE": true, "KIND_CILIUM_ENDPOINT": true}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A list made after the history was compacted lacks an object whose deletion nobody saw
// (kubernetes#22878, #89802, #115658; cilium#48050).
func TestRelistDropsWhatIsGone(t *testing.T) {
	for _, inStream := range []bool{false, true} {
		t.Run(fmt.Sprintf("410 in stream %t", inStream), func(t *testing.T) {
			api := kubetest.New(t)
			api.GoneInStream = inStream
			api.Put("services", serviceJSON("old", 80))
			api.Put("services", serviceJSON("web", 80))
			s := New(Config{Kubeconfig: api.Kubeconfig(t)})
			r := start(t, s)
			r.next(services)
			r.Ready()
			web := api.Put("services", serviceJSON("web", 81))
			r.want(services, "+shop/web@"+web)
			from, before := api.Revision(), time.Now()
			api.Offline(func() {
				api.Remove("services", "shop/old")
				api.Compact()
			})
			e := nextGapOf(r, "services")
			want := fmt.Sprintf("gap RELIST: services listed anew: resourceVersion %d to %d", from, api.Revision())
			if got := line(e); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if g := e.GetGap(); g.FromNs < before.UnixNano() || g.ToNs < g.FromNs {
				t.Errorf("gap from %d to %d, want it to start after %d", g.FromNs, g.ToNs, before.UnixNano())
			}
			r.want(services, "all +shop/web@"+web)
			sourcetest.Until(t, func() bool { return s.Object(services, "shop", "old") == nil })
		})
	}
}

// nextGapOf skips the relists of the other kinds.
func nextGapOf(r *running, plural string) *eventpb.Event {
	for {
		if e := r.next(services); e.GetGap() != nil && strings.HasPrefix(e.GetGap().Detail, plural+" ") {
			return e
		}
	}
}

// A watch that breaks and resumes from its version has missed nothing: no gap, no list.
func TestBrokenWatchResumes(t *testing.T) {
	api := kubetest.New(t)
	api.Put("services", serviceJSON("web", 80))
	r := start(t, New(Config{Kubeconfig: api.Kubeconfig(t)}))
	r.next(services)
	r.Ready()
	web := api.Put("services", serviceJSON("web", 81))
	r.want(services, "+shop/web@"+web)
	api.BreakWatches()
	db := api.Put("services", serviceJSON("db", 1))
	r.want(services, "+shop/db@"+db)
	if n := api.Listed("services"); n != 1 {
		t.Errorf("%d lists of services, want 1", n)
	}
}

func TestUnreachableServerIsTroubleAndTheNextRunLists(t *testing.T) {
	api := kubetest.New(t)
	api.Put("services", serviceJSON("web", 80))
	s := New(Config{Kubeconfig: api.Kubeconfig(t)})
	s.patience = 200 * time.Millisecond
	r := start(t, s)
	r.Ready()
	api.Offline(func() {
		err := r.Ended()
		var trouble *events.Trouble
		if !errors.As(err, &trouble) || trouble.Mend == "" {
			t.Errorf("Run returned %v, want a Trouble with a mend", err)
		}
		if s.Object(services, "shop", "web") == nil {
			t.Error("the others lose their aim while the API server is away")
		}
	})
	api.Remove("services", "shop/web")
	r = start(t, s)
	r.want(services, "all")
	sourcetest.Until(t, func() bool { return s.Object(services, "shop", "web") == nil })
}

func TestRefusalEndsAtOnce(t *testing.T) {
	api := kubetest.New(t)
	api.Answer(http.StatusForbidden, "endpointslices")
	s := New(Config{Kubeconfig: api.Kubeconfig(t)})
	s.patience = time.Hour
	r := start(t, s)
	err := r.Ended()
	if err == nil || !strings.Contains(err.Error(), "grant this user list and watch on endpointslices") {
		t.Errorf("Run returned %v, want it to name the right that is missing", err)
	}
}

func TestClusterWithoutCiliumEndpoints(t *testing.T) {
	api := kubetest.New(t)
	api.Answer(http.StatusNotFound, "ciliumendpoints")
	r := start(t, New(Config{Kubeconfig: api.Kubeconfig(t)}))
	r.want(ciliumEP, "all")
	r.Ready()
}

func TestOnlyThisNodesPodsAndEndpoints(t *testing.T) {
	api := kubetest.New(t)
	api.Put("nodes", `{"metadata":{"name":"far"},"status":{"addresses":[{"type":"InternalIP","address":"192.168.96.11"}]}}`)
	here := api.Put("pods", `{"metadata":{"namespace":"shop","name":"here"},"spec":{"nodeName":"lab"}}`)
	api.Put("pods", `{"metadata":{"namespace":"shop","name":"there"},"spec":{"nodeName":"far"}}`)
	cep := func(name, node string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"status":{"id":7,"networking":{"node":%q}}}`, name, node)
	}
	ours := api.Put("ciliumendpoints", cep("here", "192.168.96.10"))
	api.Put("ciliumendpoints", cep("there", "192.168.96.11"))
	r := start(t, New(Config{Kubeconfig: api.Kubeconfig(t), Node: "lab"}))
	seen := map[eventpb.Kind]string{}
	for len(seen) < 2 {
		e := r.Next()
		if k := e.GetKube(); k.Kind == pods || k.Kind == ciliumEP {
			seen[k.Kind] = line(e)
		}
	}
	want := map[eventpb.Kind]string{pods: "all +shop/here@" + here, ciliumEP: "all +shop/here@" + ours}
	if d := cmp.Diff(want, seen); d != "" {
		t.Error(d)
	}
	// It leaves for the other node: for this one it is gone.
	api.Put("ciliumendpoints", cep("here", "192.168.96.11"))
	r.want(ciliumEP, "-shop/here@"+fmt.Sprint(api.Revision()))
}
