package timeline

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

type service struct {
	name      string
	namespace string
	selector  map[string]string
	addresses []netip.AddrPort
	nodePorts []uint16
	pods      int // that are not told to end
}

type pod struct {
	uid      string
	services []string
	ready    bool
	deleting bool
	runs     map[string]string // container → id, of those that run
}

// kube takes changed objects. What a first list has is no news, what a later one brings happened unseen.
func (r *reader) kube(b *eventpb.KubeObjects) {
	if b.Complete && b.Part < b.Parts {
		return
	}
	var names []projections.Name
	for _, o := range b.Objects {
		names = append(names, projections.Name{Namespace: o.Namespace, Name: o.Name})
	}
	key := b.Kind.String()
	how := change{unsure: b.Complete && r.primed[key], silent: b.Complete && !r.primed[key]}
	if b.Complete {
		switch b.Kind {
		case eventpb.Kind_KIND_SERVICE:
			named := map[projections.Name]bool{}
			for _, s := range r.services {
				named[projections.Name{Namespace: s.namespace, Name: s.name}] = true
			}
			names = sorted(named, r.state.Kube[b.Kind])
		case eventpb.Kind_KIND_POD:
			names = sorted(r.pods, r.state.Kube[b.Kind])
		case eventpb.Kind_KIND_ENDPOINT_SLICE:
			names = sorted(r.slices, r.state.Kube[b.Kind])
		}
		r.primed[key] = true
	}
	for _, n := range names {
		o := r.state.Object(b.Kind, n.Namespace, n.Name)
		switch b.Kind {
		case eventpb.Kind_KIND_SERVICE:
			r.service(how, n, o)
			r.named()
		case eventpb.Kind_KIND_POD:
			r.pod(how, n, o)
		case eventpb.Kind_KIND_ENDPOINT_SLICE:
			r.slice(how, n, o)
		}
	}
}

// change says how a change became known.
type change struct{ silent, unsure bool }

func (h change) out(r *reader, f fact) {
	f.silent, f.unsure = h.silent, h.unsure
	r.out(f)
}

func (r *reader) service(how change, n projections.Name, o *eventpb.KubeObject) {
	name := n.String()
	old := r.services[name]
	if o == nil {
		if old != nil {
			how.out(r, r.row(KindService, []string{name}, name, "Service gone"))
			delete(r.services, name)
		}
		return
	}
	s := &service{name: n.Name, namespace: n.Namespace, selector: o.GetService().GetSelector()}
	r.addresses(s, name, o.GetService())
	r.services[name] = s
	if old != nil {
		s.pods = old.pods
		return
	}
	for pn, p := range r.pods {
		if pn.Namespace == n.Namespace && s.selects(r.state.Object(eventpb.Kind_KIND_POD, pn.Namespace, pn.Name)) {
			p.services = append(slices.Clone(p.services), name)
			slices.Sort(p.services)
			if !p.deleting {
				s.pods++
			}
		}
	}
	var at []string
	for _, a := range s.addresses {
		at = append(at, a.String())
	}
	for _, p := range s.nodePorts {
		at = append(at, fmt.Sprintf("node port %d", p))
	}
	how.out(r, r.row(KindService, []string{name}, name, "Service created: "+strings.Join(at, ", ")))
}

// addresses notes where the Service is reached. What is gone keeps its name until another takes its place: the
// datapath's entries go later than the object.
func (r *reader) addresses(s *service, name string, v *eventpb.Service) {
	ips := slices.Concat(v.GetClusterIps(), v.GetExternalIps(), v.GetLoadBalancerIps())
	for _, p := range v.GetPorts() {
		for _, ip := range ips {
			if a, err := netip.ParseAddr(ip); err == nil {
				addr := netip.AddrPortFrom(a, uint16(p.Port))
				s.addresses = append(s.addresses, addr)
				r.byIP[addr] = name
			}
		}
		if p.NodePort != 0 {
			s.nodePorts = append(s.nodePorts, uint16(p.NodePort))
			r.byPort[uint16(p.NodePort)] = name
		}
	}
}

func (s *service) selects(o *eventpb.KubeObject) bool {
	if o == nil || len(s.selector) == 0 || o.Namespace != s.namespace {
		return false
	}
	for k, v := range s.selector {
		if o.Labels[k] != v {
			return false
		}
	}
	return true
}

// pod compares a pod with what it was. Pods of no Service are of no interest.
func (r *reader) pod(how change, n projections.Name, o *eventpb.KubeObject) {
	old := r.pods[n]
	if old != nil && (o == nil || o.Uid != old.uid) {
		r.podGone(how, n, old)
		old = nil
	}
	if o == nil {
		return
	}
	p := &pod{uid: o.Uid, ready: o.GetPod().GetReady(), deleting: o.Deleting, runs: map[string]string{}}
	for _, c := range o.GetPod().GetContainers() {
		if c.State == "running" {
			p.runs[c.Name] = c.Id
		}
	}
	r.pods[n] = p
	if old == nil {
		r.podCame(how, n, p, o)
		old = &pod{}
	} else {
		p.services = old.services
	}
	if len(p.services) == 0 {
		return
	}
	r.podChanged(how, n, old, p, o)
}

func (r *reader) podCame(how change, n projections.Name, p *pod, o *eventpb.KubeObject) {
	for _, name := range slices.Sorted(maps.Keys(r.services)) {
		if s := r.services[name]; s.selects(o) {
			p.services = append(p.services, name)
			if !p.deleting {
				s.pods++
			}
		}
	}
	if len(p.services) == 0 {
		return
	}
	text := "created"
	if owner := o.GetPod().GetOwnerName(); owner != "" {
		text += " by " + o.GetPod().GetOwnerKind() + " " + owner
	}
	f := r.row(KindPods, p.services, n.Name, text+r.count(p, -1))
	f.is = "pod came " + n.String()
	how.out(r, f)
}

// count tells how many pods the Service had and has, not counting those that were told to end.
func (r *reader) count(p *pod, before int) string {
	s := r.services[p.services[0]]
	if s == nil {
		return ""
	}
	return fmt.Sprintf(" (pods %d → %d)", s.pods+before, s.pods)
}

func (r *reader) podChanged(how change, n projections.Name, old, p *pod, o *eventpb.KubeObject) {
	tell := func(is, text string, from ...string) {
		f := r.row(KindPods, p.services, n.Name, text)
		f.is = is + " " + n.String()
		for _, name := range from {
			f.from = append(f.from, name+" "+n.String())
		}
		how.out(r, f)
	}
	if p.deleting && !old.deleting && old.uid != "" {
		r.uncount(p)
		tell("pod ending", "told to end"+r.count(p, 1))
	}
	for _, name := range slices.Sorted(maps.Keys(old.runs)) {
		if id := p.runs[name]; id != old.runs[name] {
			text := "container " + name + " ended"
			if id != "" {
				text += " and was started again"
			}
			if !p.ready && old.ready {
				text += ", not ready"
				old.ready = false
			}
			tell("pod down", text, "pod ending")
		}
	}
	switch {
	case p.ready && !old.ready:
		tell("pod ready", "ready at "+strings.Join(o.GetPod().GetPodIps(), ", "), "pod came", "pod down")
	case !p.ready && old.ready:
		tell("pod unready", "not ready", "pod ending", "pod down")
	}
}

func (r *reader) uncount(p *pod) {
	for _, name := range p.services {
		if s := r.services[name]; s != nil {
			s.pods--
		}
	}
}

func (r *reader) podGone(how change, n projections.Name, p *pod) {
	delete(r.pods, n)
	if len(p.services) == 0 {
		return
	}
	text := "gone"
	if !p.deleting {
		r.uncount(p)
		text += r.count(p, 1)
	}
	f := r.row(KindPods, p.services, n.Name, text)
	f.is = "pod gone " + n.String()
	f.from = []string{"pod ending " + n.String()}
	how.out(r, f)
}
