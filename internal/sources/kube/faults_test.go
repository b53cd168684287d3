package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube/kubetest"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
)

// The API server is gone for a moment and still has its history: nothing is missed, nothing comes twice, no gap.
func TestServerRestartIsResumed(t *testing.T) {
	api := kubetest.New(t)
	api.Put("services", serviceJSON("web", 80))
	s := New(Config{Kubeconfig: api.Kubeconfig(t)})
	s.patience = time.Minute
	r := start(t, s)
	r.next(services)
	r.Ready()
	web := api.Put("services", serviceJSON("web", 81)) // a watch that ends before it brought anything is made anew
	r.want(services, "+shop/web@"+web)
	var db string
	api.Restart(t, func() {
		db = api.Put("services", serviceJSON("db", 5432))
		api.Remove("services", "shop/web")
	})
	if got, want := line(nextOwn(r)), "+shop/db@"+db+" -shop/web@"+fmt.Sprint(api.Revision()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := api.Listed("services"); n != 1 {
		t.Errorf("%d lists of services, want 1", n)
	}
}

// nextOwn is the next event of Services, without the gaps of other kinds.
func nextOwn(r *running) *eventpb.Event {
	for {
		if e := r.next(services); e.GetGap() == nil || strings.HasPrefix(e.GetGap().Detail, "services ") {
			return e
		}
	}
}

// It is gone and comes back with a compacted etcd: what was deleted meanwhile is dropped, in every kind, and the gap has
// both versions (kubernetes#22878).
func TestServerRestartWithCompactedHistory(t *testing.T) {
	api := kubetest.New(t)
	old := api.Put("services", serviceJSON("old", 80))
	api.Put("pods", `{"metadata":{"namespace":"shop","name":"gone"},"spec":{"nodeName":"lab"}}`)
	s := New(Config{Kubeconfig: api.Kubeconfig(t), Node: "lab"})
	s.patience = time.Minute
	r := start(t, s)
	r.want(services, "all +shop/old@"+old)
	r.Ready()
	from := api.Revision()
	api.Restart(t, func() {
		api.Remove("services", "shop/old")
		api.Remove("pods", "shop/gone")
		api.Compact()
	})
	gap := nextGapOf(r, "services").GetGap()
	if want := fmt.Sprintf("services listed anew: resourceVersion %d to %d", from, api.Revision()); gap.Detail != want || gap.Reason != eventpb.GapReason_GAP_REASON_RELIST {
		t.Errorf("gap %v, want %q", gap, want)
	}
	sourcetest.Until(t, func() bool {
		return s.Object(services, "shop", "old") == nil && s.Object(pods, "shop", "gone") == nil
	})
}

// kubernetes#115658: an object that was added a moment before a list that lacks it, both still queued, does not stay.
func TestRelistOvertakesAQueuedAdd(t *testing.T) {
	out := make(chan change, 10)
	s := &store{ctx: t.Context(), out: out, link: &link{}, res: resource{kind: services, name: "services", convert: func(o any) *eventpb.KubeObject {
		return o.(*eventpb.KubeObject)
	}}}
	object := func(name string) *eventpb.KubeObject {
		return &eventpb.KubeObject{Namespace: "shop", Name: name, Uid: name}
	}
	for _, err := range []error{s.Replace([]any{object("web")}, "1"), s.Add(object("ghost")), s.Replace([]any{object("web")}, "9")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	x := newIndex()
	b := &batcher{in: out, index: x}
	for len(out) > 0 {
		b.add(<-out)
	}
	var got []string
	for _, p := range b.pending {
		var names []string
		for _, o := range p.body.Objects {
			names = append(names, o.Name)
		}
		got = append(got, fmt.Sprintf("%t %v", p.body.Complete, names))
		x.apply(p.body)
	}
	if d := cmp.Diff([]string{"true [web]", "false [ghost]", "true [web]"}, got); d != "" {
		t.Error(d)
	}
	if x.Object(services, "shop", "ghost") != nil {
		t.Error("the object leaks")
	}
}

// kubernetes#141529: an object is deleted between the list and the watch. The watch goes on from the list's version, so
// the deletion is seen.
func TestDeleteBetweenListAndWatch(t *testing.T) {
	api := kubetest.New(t)
	web := api.Put("services", serviceJSON("web", 80))
	api.AfterList = func(plural string) {
		if plural == "services" {
			api.Remove("services", "shop/web")
		}
	}
	r := start(t, New(Config{Kubeconfig: api.Kubeconfig(t)}))
	r.want(services, "all +shop/web@"+web)
	r.want(services, "-shop/web@"+fmt.Sprint(api.Revision()))
}

func sliceJSON(name string, port int, addresses ...string) string {
	var endpoints []string
	for _, a := range addresses {
		endpoints = append(endpoints, fmt.Sprintf(`{"addresses":[%q],"conditions":{"ready":true}}`, a))
	}
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4","ports":[{"port":%d,"protocol":"TCP"}],"endpoints":[%s]}`,
		name, port, strings.Join(endpoints, ","))
}

// endpointsNow is address:port in every slice that is known now, each with its slice.
func endpointsNow(s *Source) (list []string) {
	for _, o := range s.Objects(slicesK) {
		for _, e := range o.EndpointSlice.Endpoints {
			list = append(list, fmt.Sprintf("%s %s:%d", o.Name, e.Addresses[0], o.EndpointSlice.Ports[0].GetPort()))
		}
	}
	slices.Sort(list)
	return list
}

// cilium#22446, kubernetes/website#38174: one address in two slices, under two ports; an endpoint that moves is in both
// for a while. Each slice keeps its own.
func TestOneAddressInTwoSlices(t *testing.T) {
	api := kubetest.New(t)
	api.Put("endpointslices", sliceJSON("a", 8090, "10.42.0.9", "10.42.0.10"))
	api.Put("endpointslices", sliceJSON("b", 9090, "10.42.0.9"))
	s := New(Config{Kubeconfig: api.Kubeconfig(t)})
	r := start(t, s)
	r.Ready()
	until := func(want ...string) {
		t.Helper()
		sourcetest.Until(t, func() bool { return slices.Equal(want, endpointsNow(s)) })
	}
	until("a 10.42.0.10:8090", "a 10.42.0.9:8090", "b 10.42.0.9:9090")
	api.Put("endpointslices", sliceJSON("b", 9090, "10.42.0.9", "10.42.0.10"))
	until("a 10.42.0.10:8090", "a 10.42.0.9:8090", "b 10.42.0.10:9090", "b 10.42.0.9:9090")
	api.Put("endpointslices", sliceJSON("a", 8090, "10.42.0.9"))
	until("a 10.42.0.9:8090", "b 10.42.0.10:9090", "b 10.42.0.9:9090")
	api.Remove("endpointslices", "shop/b")
	until("a 10.42.0.9:8090")
}

// A Service of 250 endpoints in three slices, and a list of 20,000 objects, which comes in parts that fit an event.
func TestManyObjects(t *testing.T) {
	api := kubetest.New(t)
	var want []string
	for i := range 250 {
		want = append(want, fmt.Sprintf("%d 10.42.%d.%d:8080", i/100, i/100, i%100))
	}
	for slice := range 3 {
		var addresses []string
		for i := slice * 100; i < min(250, slice*100+100); i++ {
			addresses = append(addresses, fmt.Sprintf("10.42.%d.%d", i/100, i%100))
		}
		api.Put("endpointslices", sliceJSON(fmt.Sprint(slice), 8080, addresses...))
	}
	const many = 20_000
	for i := range many {
		api.Put("services", serviceJSON(fmt.Sprint("s", i), 80))
	}
	s := New(Config{Kubeconfig: api.Kubeconfig(t)})
	r := start(t, s)
	r.Ready()
	slices.Sort(want)
	if d := cmp.Diff(want, endpointsNow(s)); d != "" {
		t.Error(d)
	}
	objects, parts := 0, uint32(0)
	for _, e := range r.Emitted() {
		k := e.GetKube()
		if k.GetKind() != services {
			continue
		}
		if parts++; !k.Complete || k.Part != parts {
			t.Errorf("part %d where %d belongs", k.Part, parts)
		}
		objects += len(k.Objects)
		if parts == k.Parts {
			break
		}
	}
	if objects != many || parts < 2 || len(s.Objects(services)) != many {
		t.Errorf("%d objects in %d parts, %d known", objects, parts, len(s.Objects(services)))
	}
}
