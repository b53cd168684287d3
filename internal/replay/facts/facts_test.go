package facts

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
)

// Every fact of the lab's tape is valid JSON and one line of text.
func TestEveryFactCanBePrinted(t *testing.T) {
	tape, err := journal.OpenTape("../../../testdata/lab.tape")
	if err != nil {
		t.Fatal(err)
	}
	defer tape.Close()
	kinds := map[string]int{}
	err = Stream(t.Context(), tape, Query{}, func(f *Fact, b *Book) error {
		line, err := f.JSON()
		if err != nil || !json.Valid(line) {
			t.Errorf("seq %d, fact %d: %s %v", f.Seq, f.N, line, err)
		}
		if f.Text(b) == "" || f.Kind == "unknown" {
			t.Errorf("seq %d, fact %d of %s has no text", f.Seq, f.N, f.Kind)
		}
		kinds[f.Kind]++
		return nil
	})
	if err != nil || kinds["flows"] != 4435 || len(kinds) != 12 {
		t.Errorf("%v, %v", kinds, err)
	}
}

func of(t *testing.T, e *eventpb.Event) []*Fact {
	t.Helper()
	var list []*Fact
	if err := Each(1, e, func(f *Fact) error { list = append(list, f); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

// Sizes and bytes from a foreign tape: no panic, and what cannot be read is shown as hex.
func TestForeignMaps(t *testing.T) {
	for name, d := range map[string]*eventpb.MapDelta{
		"sizes that overflow": {Map: "cilium_lxc", KeySize: 1<<32 - 1, ValueSize: 2, Upserts: make([]byte, 9), Deletes: make([]byte, 9)},
		"no sizes":            {Map: "cilium_lxc", Upserts: make([]byte, 9), Deletes: make([]byte, 9)},
		"other layout":        {Map: "cilium_lb4_services_v9", KeySize: 2, ValueSize: 1, Upserts: []byte{0xab, 0xcd, 0xef}},
	} {
		e := events.New(&eventpb.MapDeltas{Maps: []*eventpb.MapDelta{d}})
		f := &Filter{Services: []string{"a"}, Pods: []string{"b"}}
		f.Learn(e)
		NewBook().Add(e)
		for _, x := range of(t, e) {
			f.Match(x)
			line, err := x.JSON()
			if err != nil || x.Text(nil) == "" {
				t.Errorf("%s: %v", name, err)
			}
			if name == "other layout" && !json.Valid(line) || name == "other layout" && x.Text(nil) != "cilium_lb4_services_v9  abcd = ef" {
				t.Errorf("%s: %s %s", name, line, x.Text(nil))
			}
		}
	}
}

func TestFilters(t *testing.T) {
	svc := &eventpb.KubeObject{Namespace: "shop", Name: "cart", Service: &eventpb.Service{ClusterIps: []string{"10.43.0.7"}, Ports: []*eventpb.ServicePort{{Port: 80}}}}
	pod := &eventpb.KubeObject{Namespace: "shop", Name: "cart-abc", Pod: &eventpb.Pod{PodIps: []string{"10.42.0.9"}}}
	services := events.New(&eventpb.KubeObjects{Kind: eventpb.Kind_KIND_SERVICE, Objects: []*eventpb.KubeObject{svc}})
	pods := events.New(&eventpb.KubeObjects{Kind: eventpb.Kind_KIND_POD, Objects: []*eventpb.KubeObject{pod}})
	services.Source, pods.Source = "kube", "kube"
	for name, c := range map[string]struct {
		f        Filter
		svc, pod bool
	}{
		"all":                 {Filter{}, true, true},
		"kind":                {Filter{Kinds: []string{"kube"}}, true, true},
		"type":                {Filter{Kinds: []string{"kube:pod"}}, false, true},
		"either type":         {Filter{Kinds: []string{"kube:pod", "kube:service"}}, true, true},
		"other source":        {Filter{Sources: []string{"hubble"}}, false, false},
		"namespace":           {Filter{Namespaces: []string{"shop"}}, true, true},
		"another namespace":   {Filter{Namespaces: []string{"sho"}}, false, false},
		"service":             {Filter{Services: []string{"shop/cart"}}, true, false},
		"service, by name":    {Filter{Services: []string{"cart"}}, true, false},
		"no part of a name":   {Filter{Services: []string{"shop/car"}}, false, false},
		"pod's beginning":     {Filter{Pods: []string{"shop/cart-"}}, false, true},
		"address":             {Filter{IPs: []netip.Prefix{netip.MustParsePrefix("10.43.0.7/32")}}, true, false},
		"CIDR":                {Filter{IPs: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}}, false, true},
		"port":                {Filter{Ports: []uint16{80}}, true, false},
		"two flags":           {Filter{Ports: []uint16{80}, Kinds: []string{"kube:pod"}}, false, false},
		"not":                 {Filter{Not: []Filter{{Kinds: []string{"kube:pod"}}}}, true, false},
		"not, and not either": {Filter{Not: []Filter{{Kinds: []string{"kube:pod"}}, {Ports: []uint16{80}}}}, false, false},
	} {
		if got := c.f.Match(of(t, services)[0]); got != c.svc {
			t.Errorf("%s: the Service %v, want %v", name, got, c.svc)
		}
		if got := c.f.Match(of(t, pods)[0]); got != c.pod {
			t.Errorf("%s: the pod %v, want %v", name, got, c.pod)
		}
	}
}
