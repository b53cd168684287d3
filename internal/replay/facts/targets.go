package facts

import (
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// targets are the addresses and ids that a filter's Services and pods have had, by the filter's spelling.
type targets struct {
	services map[string]*serviceTarget
	pods     map[string]map[netip.Addr]bool
}

type serviceTarget struct {
	frontends map[netip.AddrPort]bool
	nodePorts map[uint16]bool
	revNATs   map[uint16]bool
	slots     map[uint32]bool // ids of backends
	backends  map[netip.AddrPort]bool
}

func newTargets() *targets {
	return &targets{map[string]*serviceTarget{}, map[string]map[netip.Addr]bool{}}
}

func (t *targets) learn(f *Filter, e *eventpb.Event) {
	for _, o := range e.GetKube().GetObjects() {
		name := o.Namespace + "/" + o.Name
		if o.Pod != nil && !o.Pod.HostNetwork {
			t.learnPod(f.Pods, name, o.Pod.PodIps)
		}
		t.learnPod(f.Pods, name, o.CiliumEndpoint.GetAddresses())
		if s := o.Service; s != nil {
			for _, want := range f.Services {
				if isService(want)(name) {
					t.of(want).learnService(s)
				}
			}
		}
	}
	for _, d := range e.GetMaps().GetMaps() {
		if k := cilium.KindOf(d.Map); k == cilium.Services4 || k == cilium.Services6 {
			t.learnServices(d)
		}
	}
	// Backends come in the same event as the slots that name them, or in a later one.
	for _, d := range e.GetMaps().GetMaps() {
		if k := cilium.KindOf(d.Map); k == cilium.Backends4 || k == cilium.Backends6 {
			t.learnBackends(d)
		}
	}
}

func (t *targets) of(want string) *serviceTarget {
	s := t.services[want]
	if s == nil {
		s = &serviceTarget{map[netip.AddrPort]bool{}, map[uint16]bool{}, map[uint16]bool{}, map[uint32]bool{}, map[netip.AddrPort]bool{}}
		t.services[want] = s
	}
	return s
}

func (t *targets) learnPod(wanted []string, name string, ips []string) {
	for _, want := range wanted {
		if len(ips) == 0 || !isPod(want)(name) {
			continue
		}
		if t.pods[want] == nil {
			t.pods[want] = map[netip.Addr]bool{}
		}
		for _, ip := range ips {
			if a, err := netip.ParseAddr(ip); err == nil {
				t.pods[want][a] = true
			}
		}
	}
}

func (s *serviceTarget) learnService(o *eventpb.Service) {
	var r Refs
	r.addAddrs(o.ClusterIps, o.ExternalIps, o.LoadBalancerIps)
	for _, p := range o.Ports {
		for _, a := range r.Addrs {
			s.frontends[netip.AddrPortFrom(a, uint16(p.Port))] = true
		}
		if p.NodePort != 0 {
			s.nodePorts[uint16(p.NodePort)] = true
		}
	}
}

func (t *targets) learnServices(d *eventpb.MapDelta) {
	eachUpsert(d, func(e entry) {
		slot, ok := e.(service)
		if !ok {
			return
		}
		for _, s := range t.services {
			if s.frontends[slot.Frontend] || s.nodePorts[slot.Frontend.Port()] {
				s.revNATs[slot.RevNAT] = true
				if slot.BackendID != 0 {
					s.slots[slot.BackendID] = true
				}
			}
		}
	})
}

func (t *targets) learnBackends(d *eventpb.MapDelta) {
	eachUpsert(d, func(e entry) {
		b, ok := e.(backend)
		if !ok {
			return
		}
		for _, s := range t.services {
			if s.slots[b.ID] {
				s.backends[b.Address] = true
			}
		}
	})
}

func eachUpsert(d *eventpb.MapDelta, fn func(entry)) {
	if _, ok := cilium.Lookup(d.Map, d.KeySize, d.ValueSize); !ok {
		return // its sizes are not to be trusted
	}
	n := int(d.KeySize + d.ValueSize)
	for b := d.Upserts; len(b) >= n; b = b[n:] {
		if e := (mapEntry{delta: d, key: b[:d.KeySize], value: b[d.KeySize:n]}).decode(); e != nil {
			fn(e)
		}
	}
}

// pod says whether the refs have an address of the pod.
func (t *targets) pod(want string, r *Refs) bool {
	if t == nil {
		return false
	}
	has := func(a netip.Addr) bool { return t.pods[want][a.Unmap()] }
	return slices.ContainsFunc(r.Addrs, has) ||
		slices.ContainsFunc(r.Sockets, func(s netip.AddrPort) bool { return has(s.Addr()) }) ||
		slices.ContainsFunc(r.Prefixes, func(p netip.Prefix) bool { return p.IsSingleIP() && has(p.Addr()) })
}

// service says whether the refs have a frontend, a slot or a backend of the Service.
func (t *targets) service(want string, r *Refs) bool {
	if t == nil || t.services[want] == nil {
		return false
	}
	s := t.services[want]
	return slices.ContainsFunc(r.Sockets, func(a netip.AddrPort) bool {
		return s.frontends[a] || s.backends[a] || s.nodePorts[a.Port()]
	}) ||
		slices.ContainsFunc(r.RevNATs, func(id uint16) bool { return s.revNATs[id] }) ||
		slices.ContainsFunc(r.Backends, func(id uint32) bool { return s.slots[id] })
}
