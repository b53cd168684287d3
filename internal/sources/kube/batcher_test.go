package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestLongListsComeInParts(t *testing.T) {
	var all []*eventpb.KubeObject
	for i := range 10 {
		all = append(all, &eventpb.KubeObject{Name: fmt.Sprintf("%d-%s", i, strings.Repeat("x", 98))})
	}
	for name, c := range map[string]struct {
		body  *eventpb.KubeObjects
		sizes []int
		parts bool
	}{
		"short list":              {&eventpb.KubeObjects{Complete: true, Objects: all[:3]}, []int{3}, false},
		"empty list":              {&eventpb.KubeObjects{Complete: true}, []int{0}, false},
		"long list":               {&eventpb.KubeObjects{Complete: true, Objects: all}, []int{4, 4, 2}, true},
		"many changes, no list":   {&eventpb.KubeObjects{Objects: all}, []int{4, 4, 2}, false},
		"an object above the cut": {&eventpb.KubeObjects{Objects: []*eventpb.KubeObject{{Name: strings.Repeat("x", 999)}, all[0]}}, []int{1, 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := parts(c.body, 410)
			var sizes []int
			var joined []*eventpb.KubeObject
			for i, p := range got {
				sizes = append(sizes, len(p.Objects))
				joined = append(joined, p.Objects...)
				if p.Complete != c.body.Complete || (p.Parts != 0) != c.parts || c.parts && (int(p.Part) != i+1 || int(p.Parts) != len(got)) {
					t.Errorf("part %d: complete %t, part %d of %d", i+1, p.Complete, p.Part, p.Parts)
				}
			}
			if d := cmp.Diff(c.sizes, sizes); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.body.Objects, joined, protocmp.Transform()); d != "" {
				t.Error(d)
			}
		})
	}
}

// A delete before a list, a list, and changes after it stay in that order.
func TestListsCutBatches(t *testing.T) {
	b := &batcher{}
	o := func(name string) *eventpb.KubeObject { return &eventpb.KubeObject{Name: name} }
	b.add(change{kind: services, object: o("a")})
	b.add(change{kind: slicesK, object: o("s")})
	b.add(change{kind: services, object: o("b")})
	b.add(change{kind: services, whole: true, list: []*eventpb.KubeObject{o("c")}, gap: &eventpb.Gap{}})
	b.add(change{kind: services, object: o("d")})
	b.add(change{kind: slicesK, object: o("t")})
	var got []string
	for _, p := range b.pending {
		names := fmt.Sprintf("%v complete=%t gap=%t:", p.body.Kind, p.body.Complete, p.gap != nil)
		for _, o := range p.body.Objects {
			names += " " + o.Name
		}
		got = append(got, names)
	}
	want := []string{
		"KIND_SERVICE complete=false gap=false: a b",
		"KIND_ENDPOINT_SLICE complete=false gap=false: s t",
		"KIND_SERVICE complete=true gap=true: c",
		"KIND_SERVICE complete=false gap=false: d",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAHeartbeatIsNoChange(t *testing.T) {
	a := &eventpb.KubeObject{Name: "lab", ResourceVersion: "1", Node: &eventpb.Node{Ready: true}}
	b := proto.Clone(a).(*eventpb.KubeObject)
	b.ResourceVersion = "2"
	if !sameFacts(a, b) || b.ResourceVersion != "2" {
		t.Error("only the version differs, and it is kept")
	}
	b.Node.Ready = false
	if sameFacts(a, b) {
		t.Error("a node that is not ready is a change")
	}
}
