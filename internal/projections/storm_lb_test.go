package projections

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// storm is a node on which much changes at once: EndpointSlices first, the agent's rows some 50 to 300 ms later, the maps 50 to
// 1000 ms after the slices.
type storm struct {
	*story
	*rand.Rand
	services []*stormService
	todo     []stormStep
	next     int // number of the next pod
}

type stormStep struct {
	at int64
	do func()
}

// stormService is one Service, as each of the three sides has it.
type stormService struct {
	name, front string
	pods        []stormPod // the API
	row         []stormPod // the agent
	slots       int        // the map
	stuck       string     // a backend that the map keeps
}

type stormPod struct {
	ip    string
	state wishState
}

func newStorm(t *testing.T, seed uint64) *storm {
	w := &storm{story: tell(t), Rand: rand.New(rand.NewPCG(seed, 7))}
	w.now = int64(time.Hour)
	w.event("agent", &eventpb.AgentObjects{Kind: "status", Complete: true, Objects: []*eventpb.AgentObject{{Json: []byte(`{"kube-proxy-replacement":{"mode":"True"}}`)}}})
	w.objects(eventpb.Kind_KIND_NODE, &eventpb.KubeObject{Name: "lab", Node: &eventpb.Node{InternalIps: []string{"192.168.0.1"}}})
	for i := range 5 {
		v := &stormService{name: fmt.Sprint("s", i), front: fmt.Sprintf("10.43.1.%d:80", i)}
		w.services = append(w.services, v)
		w.svc(v.name, func(o *eventpb.KubeObject) { o.Service.ClusterIps = []string{v.front[:len(v.front)-3]} })
		for range 4 {
			v.pods = append(v.pods, w.pod())
		}
		w.tellSlice(v)
		w.tellRow(v)
		w.tellMap(v)
	}
	return w
}

func (w *storm) pod() stormPod {
	w.next++
	return stormPod{ip: fmt.Sprintf("10.42.%d.%d", w.next/250, 1+w.next%250)}
}

func (w *storm) later(from, to int64, do func()) {
	w.todo = append(w.todo, stormStep{w.now + (from+w.Int64N(to-from))*int64(time.Millisecond), do})
}

// run does what is due, in order of time, with a tick whenever a finding is due and nothing else happens.
func (w *storm) run() {
	for len(w.todo) > 0 {
		i := 0
		for j := range w.todo {
			if w.todo[j].at < w.todo[i].at {
				i = j
			}
		}
		step := w.todo[i]
		w.todo = slices.Delete(w.todo, i, i+1)
		for {
			due, ok := w.s.NextDue()
			if !ok || due > step.at {
				break
			}
			w.now = due
			w.event("recorder", &eventpb.Tick{})
		}
		w.now = step.at
		step.do()
	}
}

// change is one change of a Service: a pod more, a pod less, or one whose readiness flaps.
func (w *storm) change(v *stormService) {
	i := w.IntN(len(v.pods))
	p := &v.pods[i]
	switch n := w.IntN(10); {
	case n < 3 && len(v.pods) < 60:
		v.pods = append(v.pods, w.pod())
	case n < 5 && p.state == wishActive && len(v.pods) > 2:
		p.state = wishLeaving
		w.later(300, 2500, func() {
			ip := v.pods[slices.IndexFunc(v.pods, func(o stormPod) bool { return o.state == wishLeaving })].ip
			v.pods = slices.DeleteFunc(v.pods, func(o stormPod) bool { return o.ip == ip })
			w.spread(v)
		})
	case p.state == wishActive:
		p.state = wishIdle
	case p.state == wishIdle:
		p.state = wishActive
	}
	w.spread(v)
}

// spread tells of a Service as the API has it now, and lets agent and map follow.
func (w *storm) spread(v *stormService) {
	w.tellSlice(v)
	w.later(50, 300, func() {
		v.row = slices.Clone(v.pods)
		w.tellRow(v)
		w.later(0, 700, func() { w.tellMap(v) })
	})
}

func (w *storm) tellSlice(v *stormService) {
	var ends []string
	for _, p := range v.pods {
		ends = append(ends, []string{"", "~", "-"}[p.state]+p.ip)
	}
	w.objects(eventpb.Kind_KIND_ENDPOINT_SLICE, sliceObject(v.name+"-1", v.name, nil, ends...))
	if v.row == nil {
		v.row = slices.Clone(v.pods)
	}
}

func (w *storm) tellRow(v *stormService) {
	var list []string
	for _, p := range v.row {
		if p.state != wishIdle {
			list = append(list, []string{"", "~"}[p.state]+p.ip+":8080/TCP")
		}
	}
	w.row(v.front+"/TCP", "cca-dp/"+v.name, "Done", "", list...)
}

// tellMap writes a Service's slots as Cilium does: active ones, then terminating ones behind the count.
func (w *storm) tellMap(v *stormService) {
	var list []lbBackend
	for state, as := range []cilium.BackendState{cilium.BackendActive, cilium.BackendTerminating} {
		for _, p := range v.row {
			if p.state == wishState(state) && p.ip != v.stuck {
				list = append(list, lbBackend{address: p.ip + ":8080", state: as})
			}
		}
		if state == 0 && v.stuck != "" {
			list = append(list, lbBackend{address: v.stuck + ":8080"})
		}
	}
	head := lbEntry{front: v.front}
	for _, b := range list {
		if b.state == cilium.BackendActive {
			head.count++
		}
	}
	if head.qcount = uint16(len(list)) - head.count; head.count == 0 {
		head.count, head.qcount = head.qcount, 0
	}
	services, backends := servicesDelta(false), backendsDelta(false)
	for i, b := range list {
		e := lbEntry{front: v.front, slot: uint16(i + 1), backend: b.id()}
		services.Upserts = append(services.Upserts, e.bytes()...)
		backends.Upserts = append(backends.Upserts, b.bytes()...)
	}
	for i := len(list); i < v.slots; i++ {
		e := lbEntry{front: v.front, slot: uint16(i + 1)}
		services.Deletes = append(services.Deletes, e.bytes()[:12]...)
	}
	services.Upserts = append(services.Upserts, head.bytes()...)
	v.slots = len(list)
	w.maps(backends, services)
}

// rage makes 200 changes a minute.
func (w *storm) rage(minutes int) {
	for range 200 * minutes {
		v := w.services[w.IntN(len(w.services))]
		at := w.Int64N(int64(minutes) * 60_000)
		w.later(at, at+1, func() { w.change(v) })
	}
	w.run()
}

func TestStorm(t *testing.T) {
	for seed := range uint64(3) {
		w := newStorm(t, seed)
		w.rage(10)
		if w.s.Seq < 5000 || w.next < 100 {
			t.Fatalf("only %d events and %d pods", w.s.Seq, w.next)
		}
		for _, f := range w.s.Findings() {
			t.Errorf("seed %d: %s: %s", seed, f.Rule, f.Text)
		}
	}
}

func TestStuckBackendInTheStorm(t *testing.T) {
	w := newStorm(t, 1)
	v := w.services[2]
	w.rage(5)
	i := slices.IndexFunc(v.pods, func(p stormPod) bool { return p.state == wishActive })
	stuck := v.pods[i].ip
	v.pods = slices.Delete(v.pods, i, i+1)
	v.stuck = stuck
	w.spread(v)
	since := w.now
	w.rage(5)
	if len(w.s.Findings()) != 1 {
		t.Errorf("%d findings, want one", len(w.s.Findings()))
	}
	w.wantOpen("after ten minutes", "stale-backend "+v.front+"/TCP "+stuck+":8080/TCP")
	w.wantText("stale-backend", "which no EndpointSlice of cca-dp/s2 has; the agent has it no more: the map is behind the agent")
	if f := w.s.Findings()[0]; f.SinceNs != since || f.FoundNs != since+int64(apiHold) {
		t.Errorf("it began at %d and was found at %d, want %d and %s later", f.SinceNs, f.FoundNs, since, apiHold)
	}
}
