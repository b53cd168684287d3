package timeline

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

type slice struct {
	service string
	ends    map[netip.AddrPort]endpoint
}

type endpoint struct {
	ready, serving, terminating bool
	pod                         string // namespace/name
}

func (e endpoint) String() string {
	switch {
	case e.ready:
		return "ready"
	case e.terminating && e.serving:
		return "terminating, still serving"
	case e.terminating:
		return "terminating, not serving"
	}
	return "not ready"
}

// slice compares a Service's endpoints with what they were.
func (r *reader) slice(how change, n projections.Name, o *eventpb.KubeObject) {
	old := r.slices[n]
	names := map[string]bool{}
	if old != nil {
		names[old.service] = true
	}
	if o == nil {
		delete(r.slices, n)
	} else {
		s := readSlice(o)
		r.slices[n] = s
		names[s.service] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		r.endpoints(how, name)
	}
}

func readSlice(o *eventpb.KubeObject) *slice {
	v := o.GetEndpointSlice()
	s := &slice{projections.Name{Namespace: o.Namespace, Name: v.GetService()}.String(), map[netip.AddrPort]endpoint{}}
	for _, e := range v.GetEndpoints() {
		is := endpoint{ready: e.Ready == nil || *e.Ready, serving: e.Serving == nil || *e.Serving, terminating: e.GetTerminating()}
		if e.TargetName != "" {
			is.pod = projections.Name{Namespace: e.TargetNamespace, Name: e.TargetName}.String()
		}
		for _, text := range e.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			for _, p := range v.GetPorts() {
				if p.Port != nil {
					s.ends[netip.AddrPortFrom(a, uint16(*p.Port))] = is
				}
			}
		}
	}
	return s
}

func (r *reader) endpoints(how change, name string) {
	now := map[netip.AddrPort]endpoint{}
	for _, s := range r.slices {
		if s.service != name {
			continue
		}
		for a, e := range s.ends {
			// An address may be in two slices while it moves from one to the other.
			if have, ok := now[a]; !ok || e.ready && !have.ready {
				now[a] = e
			}
		}
	}
	old := r.ends[name]
	r.ends[name] = now
	if len(now) == 0 {
		delete(r.ends, name)
	}
	all := maps.Clone(now)
	maps.Copy(all, old)
	for _, a := range slices.SortedFunc(maps.Keys(all), netip.AddrPort.Compare) {
		was, had := old[a]
		is, has := now[a]
		switch {
		case has && (!had || was.ready != is.ready || was.String() != is.String()):
			r.endpointIs(how, name, a, is, had && was.ready)
		case !has:
			r.endpointGone(how, name, a, was)
		}
		if has && !had {
			r.newBackend(how, a, name)
		}
	}
}

func (r *reader) endpointIs(how change, name string, a netip.AddrPort, e endpoint, wasReady bool) {
	f := r.row(KindEndpoint, []string{name}, a.String(), "EndpointSlice: "+e.String())
	if e.pod != "" {
		f.Text += " (" + podName(e.pod) + ")"
	}
	f.addr, r.podAt[a] = a, e.pod
	switch {
	case e.ready:
		f.is, f.edge = "in "+a.String(), sliceIn
		f.from, f.against = []string{"pod ready " + e.pod, "pod came " + e.pod}, "out "+a.String()
		f.ends = []string{"out " + a.String()}
	case wasReady:
		f.is, f.edge = "out "+a.String(), sliceOut
		f.from, f.against = []string{"pod ending " + e.pod, "pod unready " + e.pod, "pod down " + e.pod, "pod gone " + e.pod}, "in "+a.String()
		f.ends = []string{"in " + a.String()}
	default:
		f.is = "known " + a.String()
		f.from = []string{"pod came " + e.pod, "pod unready " + e.pod, "pod down " + e.pod, "pod ending " + e.pod}
	}
	how.out(r, f)
}

func (r *reader) endpointGone(how change, name string, a netip.AddrPort, was endpoint) {
	f := r.row(KindEndpoint, []string{name}, a.String(), "EndpointSlice: removed (was "+was.String()+")")
	f.is = "gone " + a.String()
	f.from = []string{"pod ending " + was.pod, "pod unready " + was.pod, "pod down " + was.pod, "pod gone " + was.pod}
	if was.ready {
		f.is, f.edge, f.addr = "out "+a.String(), sliceOut, a
		f.ends = []string{"in " + a.String()}
	}
	how.out(r, f)
}

// newBackend notes who has the backend. An address that no Service has now is another pod's when it comes again.
func (r *reader) newBackend(how change, a netip.AddrPort, name string) {
	free := true
	for _, s := range r.owners[a] {
		if _, has := r.ends[s][a]; has && s != name {
			free = false
		}
	}
	if free {
		r.owners[a] = nil
	}
	r.owned(a, name)
	if !how.silent {
		r.fresh[use{a, name}], r.fresh[use{a, ""}] = true, true
	}
}

func podName(full string) string {
	for i := range full {
		if full[i] == '/' {
			return full[i+1:]
		}
	}
	return full
}
