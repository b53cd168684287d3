package facts

import (
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Filter picks facts. Within a list any may match, and each list that is not empty must; a fact that matches any of
// Not is left out. The zero Filter takes everything.
type Filter struct {
	Sources    []string
	Kinds      []string // kind, or kind:type
	Namespaces []string
	Pods       []string // namespace/name, or name for any namespace; the beginning of a name is enough, as in Hubble
	Services   []string // namespace/name, or name
	IPs        []netip.Prefix
	Ports      []uint16
	Maps       []string // patterns as path.Match has them
	Verdicts   []string
	Not        []Filter

	targets *targets
}

// simple says that the filter asks for nothing inside the events, so that source, kind and type alone decide.
func (f *Filter) simple() bool {
	return len(f.Namespaces)+len(f.Pods)+len(f.Services)+len(f.IPs)+len(f.Ports)+len(f.Maps)+len(f.Verdicts) == 0
}

// NeedsTargets says that the session must be read once for what the named Services and pods had, see Learn.
func (f *Filter) NeedsTargets() bool {
	for i := range f.Not {
		if f.Not[i].NeedsTargets() {
			return true
		}
	}
	return len(f.Services)+len(f.Pods) > 0
}

// Learn takes an event of the first reading: the addresses and ids that the filter's Services and pods had at any
// time of the session. Map entries, sockets and flows know nothing else of them.
func (f *Filter) Learn(e *eventpb.Event) {
	for i := range f.Not {
		f.Not[i].Learn(e)
	}
	if len(f.Services)+len(f.Pods) == 0 {
		return
	}
	if f.targets == nil {
		f.targets = newTargets()
	}
	f.targets.learn(f, e)
}

// MayMatch says, without looking at the facts, whether any of an event can match.
func (f *Filter) MayMatch(source, kind string) bool {
	return (len(f.Sources) == 0 || slices.Contains(f.Sources, source)) &&
		(len(f.Kinds) == 0 || slices.ContainsFunc(f.Kinds, func(k string) bool { return k == kind || strings.HasPrefix(k, kind+":") }))
}

// Match says whether the filter takes the fact.
func (f *Filter) Match(x *Fact) bool {
	var refs *Refs
	get := func() *Refs {
		if refs == nil {
			r := x.Refs()
			refs = &r
		}
		return refs
	}
	if !f.match(x, get) {
		return false
	}
	for i := range f.Not {
		if f.Not[i].match(x, get) {
			return false
		}
	}
	return true
}

func (f *Filter) match(x *Fact, refs func() *Refs) bool {
	if !f.MayMatch(x.Source, x.Kind) || !f.matchKind(x) {
		return false
	}
	if f.simple() {
		return true
	}
	r := refs()
	return matchAny(f.Namespaces, func(ns string) bool { return slices.Contains(r.Namespaces, ns) }) &&
		matchAny(f.Maps, func(pattern string) bool { ok, _ := path.Match(pattern, r.Map); return ok }) &&
		matchAny(f.Verdicts, func(v string) bool { return strings.EqualFold(r.Verdict, v) }) &&
		matchAny(f.IPs, r.hasIP) &&
		matchAny(f.Ports, r.hasPort) &&
		matchAny(f.Pods, func(p string) bool { return slices.ContainsFunc(r.Pods, isPod(p)) || f.targets.pod(p, r) }) &&
		matchAny(f.Services, func(s string) bool { return slices.ContainsFunc(r.Services, isService(s)) || f.targets.service(s, r) })
}

func (f *Filter) matchKind(x *Fact) bool {
	return matchAny(f.Kinds, func(k string) bool {
		kind, typ, typed := strings.Cut(k, ":")
		return kind == x.Kind && (!typed || typ == x.Type)
	})
}

func matchAny[T any](list []T, ok func(T) bool) bool {
	return len(list) == 0 || slices.ContainsFunc(list, ok)
}

// isPod takes names as Hubble does: a prefix is enough.
func isPod(want string) func(string) bool {
	return func(pod string) bool {
		if !strings.Contains(want, "/") {
			_, pod, _ = strings.Cut(pod, "/")
		}
		return strings.HasPrefix(pod, want)
	}
}

func isService(want string) func(string) bool {
	return func(name string) bool { return name == want || strings.HasSuffix(name, "/"+want) }
}

func (r *Refs) hasIP(p netip.Prefix) bool {
	in := func(a netip.Addr) bool { return p.Contains(a.Unmap()) }
	return slices.ContainsFunc(r.Addrs, in) ||
		slices.ContainsFunc(r.Sockets, func(s netip.AddrPort) bool { return in(s.Addr()) }) ||
		slices.ContainsFunc(r.Prefixes, func(q netip.Prefix) bool {
			// 0.0.0.0/0 has every address in it and is about none.
			return q.Bits() > 0 && q.Overlaps(p)
		})
}

func (r *Refs) hasPort(p uint16) bool {
	return slices.Contains(r.Ports, p) || slices.ContainsFunc(r.Sockets, func(s netip.AddrPort) bool { return s.Port() == p })
}
