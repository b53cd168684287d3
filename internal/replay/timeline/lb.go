package timeline

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// balancer is the load balancer's maps, joined.
type balancer struct {
	fronts   map[frontKey]*front
	backends map[backendKey]cilium.Backend
	touched  map[frontKey]bool
	has      map[use]int // in how many frontends a Service has a backend
}

type frontKey struct {
	address netip.AddrPort
	proto   cilium.Proto
	scope   uint8
}

type backendKey struct {
	v6 bool
	id uint32
}

// use is a Service's use of a backend; service "" stands for any.
type use struct {
	addr    netip.AddrPort
	service string
}

type front struct {
	service string
	id      uint16
	head    bool
	count   uint16
	flags   cilium.ServiceFlags
	slots   map[uint16]uint32
	// active are the backends of slots 1 … count, among which the datapath chooses. Slots behind them name
	// backends that only keep the connections that they have.
	active map[netip.AddrPort]uint32
}

func newBalancer() *balancer {
	return &balancer{map[frontKey]*front{}, map[backendKey]cilium.Backend{}, map[frontKey]bool{}, map[use]int{}}
}

// maps takes the deltas that the timeline rests on.
func (r *reader) maps(seq uint64, e *eventpb.Event, b *eventpb.MapDeltas) {
	how, of := change{}, false
	for _, d := range b.Maps {
		switch cilium.KindOf(d.Map) {
		case cilium.Services4, cilium.Services6, cilium.Backends4, cilium.Backends6:
			of = true
		}
	}
	if of {
		r.state.Apply(seq, e)
		for _, d := range b.Maps {
			r.lbDelta(d, &how)
		}
		r.lbChanged(how)
	}
	for _, d := range b.Maps {
		r.connections(d)
	}
}

func (r *reader) lbDelta(d *eventpb.MapDelta, how *change) {
	kind := cilium.KindOf(d.Map)
	switch kind {
	case cilium.Services4, cilium.Services6, cilium.Backends4, cilium.Backends6:
	default:
		return
	}
	m := r.state.Maps[d.Map]
	if m == nil || !m.Readable {
		r.replace(kind, nil)
		return
	}
	if d.Complete {
		if d.Part >= d.Parts {
			how.unsure, how.silent = how.unsure || r.primed[d.Map], how.silent || !r.primed[d.Map]
			r.primed[d.Map] = true
			r.replace(kind, m.Entries)
		}
		return
	}
	k, size := int(d.KeySize), int(d.KeySize+d.ValueSize)
	for keys := d.Deletes; k > 0 && len(keys) >= k; keys = keys[k:] {
		r.lbEntry(kind, keys[:k], nil)
	}
	for u := d.Upserts; k > 0 && len(u) >= size; u = u[size:] {
		r.lbEntry(kind, u[:k], u[k:size])
	}
}

// swept drops what a source's new snapshot did not bring again.
func (r *reader) swept() {
	have := map[cilium.Kind]bool{}
	for _, m := range r.state.Maps {
		have[m.Kind] = have[m.Kind] || m.Readable
	}
	for _, kind := range []cilium.Kind{cilium.Services4, cilium.Services6, cilium.Backends4, cilium.Backends6} {
		if !have[kind] {
			r.replace(kind, nil)
		}
	}
	r.lbChanged(change{unsure: true})
}

// replace takes a whole map in place of what was known of it.
func (r *reader) replace(kind cilium.Kind, entries map[string]projections.Value) {
	v6 := kind == cilium.Services6 || kind == cilium.Backends6
	switch kind {
	case cilium.Services4, cilium.Services6:
		for k, f := range r.lb.fronts {
			if k.address.Addr().Is6() == v6 {
				f.head, f.slots = false, map[uint16]uint32{}
				r.lb.touched[k] = true
			}
		}
	default:
		for k := range r.lb.backends {
			if k.v6 == v6 {
				delete(r.lb.backends, k)
			}
		}
	}
	for k, v := range entries {
		r.lbEntryQuiet(kind, []byte(k), []byte(v.Bytes))
	}
}

// lbEntry takes one changed entry; value is nil for one that is gone.
func (r *reader) lbEntry(kind cilium.Kind, key, value []byte) {
	if kind == cilium.Backends4 || kind == cilium.Backends6 {
		r.backendChanged(kind == cilium.Backends6, key, value)
		return
	}
	r.lbEntryQuiet(kind, key, value)
}

func (r *reader) lbEntryQuiet(kind cilium.Kind, key, value []byte) {
	if kind == cilium.Backends4 || kind == cilium.Backends6 {
		if b, err := cilium.DecodeBackend(key, value); err == nil {
			r.lb.backends[backendKey{kind == cilium.Backends6, b.ID}] = b
		}
		return
	}
	gone := value == nil
	if gone {
		value = bytes.Repeat([]byte{0}, 12)
	}
	s, err := cilium.DecodeService(key, value)
	if err != nil || s.Frontend.Port() == 0 {
		return // unreadable, or the wildcard that has no slots
	}
	k := frontKey{s.Frontend, s.Proto, s.Scope}
	f := r.lb.fronts[k]
	if f == nil {
		f = &front{slots: map[uint16]uint32{}}
		r.lb.fronts[k] = f
	}
	r.lb.touched[k] = true
	switch {
	case gone && s.Head():
		f.head = false
	case gone:
		delete(f.slots, s.Slot)
	case s.Head():
		f.head, f.count, f.flags, f.id = true, s.Count, s.Flags, s.RevNAT
	default:
		f.slots[s.Slot] = s.BackendID
	}
}

// backendChanged tells of a backend's state, and that it is gone.
func (r *reader) backendChanged(v6 bool, key, value []byte) {
	if value == nil {
		if len(key) != 4 {
			return
		}
		k := backendKey{v6, binary.LittleEndian.Uint32(key)}
		if b, ok := r.lb.backends[k]; ok {
			f := r.row(KindBackend, r.owners[b.Address], b.Address.String(), fmt.Sprintf("map: backend id %d deleted", b.ID))
			f.is, f.from = "backend gone "+b.Address.String(), []string{"agent gone " + b.Address.String(), "agent out " + b.Address.String(), "gone " + b.Address.String(), "out " + b.Address.String()}
			r.out(f)
			delete(r.lb.backends, k)
		}
		return
	}
	b, err := cilium.DecodeBackend(key, value)
	if err != nil {
		return
	}
	k := backendKey{v6, b.ID}
	old, had := r.lb.backends[k]
	r.lb.backends[k] = b
	if had && old.State != b.State {
		f := r.row(KindBackend, r.owners[b.Address], b.Address.String(), fmt.Sprintf("map: backend id %d %s (was %s)", b.ID, b.State, old.State))
		f.is = "backend " + b.State.String() + " " + b.Address.String()
		f.from = []string{"agent out " + b.Address.String(), "agent in " + b.Address.String(), "out " + b.Address.String(), "in " + b.Address.String()}
		r.out(f)
	}
}

// lbChanged compares the frontends that were touched with what they were.
func (r *reader) lbChanged(how change) {
	added, removed := map[use][]string{}, map[use][]string{}
	ids := map[use]uint32{}
	for k := range r.lb.touched {
		f := r.lb.fronts[k]
		if f == nil {
			continue
		}
		if f.service == "" {
			f.service = r.serviceOf(k, f)
		}
		old := f.active
		f.active = r.lb.activeOf(k, f)
		text := frontText(k)
		for a, id := range f.active {
			if _, had := old[a]; !had {
				u := use{a, f.service}
				added[u], ids[u] = append(added[u], text), id
				r.lb.has[u]++
			}
		}
		for a := range old {
			if _, has := f.active[a]; !has {
				u := use{a, f.service}
				removed[u] = append(removed[u], text)
				r.lb.drop(u)
			}
		}
		if !f.head && len(f.slots) == 0 {
			delete(r.lb.fronts, k)
		}
	}
	for _, u := range usesIn(removed) {
		r.slotRemoved(how, u, removed[u])
	}
	for _, u := range usesIn(added) {
		r.slotAdded(how, u, added[u], ids[u])
	}
	r.lb.touched = r.lb.unresolved()
}

// named gives frontends their Service that was not known when they were read: sources start side by side.
func (r *reader) named() {
	for k, f := range r.lb.fronts {
		if f.service != "" {
			continue
		}
		if f.service = r.serviceOf(k, f); f.service == "" {
			continue
		}
		for a := range f.active {
			u := use{a, f.service}
			r.lb.drop(use{a, ""})
			r.lb.has[u]++
			r.owned(a, f.service)
			r.out(fact{Row: Row{TimeNs: r.seen, SeenNs: r.seen, Services: u.services()}, silent: true, edge: mapIn, addr: a})
		}
	}
}

func (l *balancer) drop(u use) {
	if l.has[u]--; l.has[u] <= 0 {
		delete(l.has, u)
	}
}

func (l *balancer) activeOf(k frontKey, f *front) map[netip.AddrPort]uint32 {
	active := map[netip.AddrPort]uint32{}
	if !f.head {
		return active
	}
	for slot, id := range f.slots {
		if b, ok := l.backends[backendKey{k.address.Addr().Is6(), id}]; ok && slot <= f.count {
			active[b.Address] = id
		}
	}
	return active
}

// unresolved are the frontends with a slot whose backend is not known yet; they are looked at again.
func (l *balancer) unresolved() map[frontKey]bool {
	found := map[frontKey]bool{}
	for k := range l.touched {
		f := l.fronts[k]
		if f == nil {
			continue
		}
		for slot, id := range f.slots {
			if _, ok := l.backends[backendKey{k.address.Addr().Is6(), id}]; !ok && slot <= f.count {
				found[k] = true
			}
		}
	}
	return found
}

// serviceOf names the Service of a frontend: as the API has it, else as the agent does.
func (r *reader) serviceOf(k frontKey, f *front) string {
	if name := r.byIP[k.address]; name != "" {
		return name
	}
	if f.flags&cilium.FlagNodePort != 0 {
		if name := r.byPort[k.address.Port()]; name != "" {
			return name
		}
	}
	proto := k.proto
	if proto == cilium.Any {
		proto = cilium.TCP
	}
	if row := r.agent[fmt.Sprintf("%s/%s", k.address, proto)]; row != nil {
		return row.service
	}
	return ""
}

func frontText(k frontKey) string {
	text := k.address.String()
	if k.proto != cilium.TCP && k.proto != cilium.Any {
		text += "/" + k.proto.String()
	}
	if k.scope != 0 {
		text += " (internal)"
	}
	return text
}

func usesIn(m map[use][]string) []use {
	return slices.SortedFunc(maps.Keys(m), func(a, b use) int {
		return cmp.Or(strings.Compare(a.service, b.service), a.addr.Compare(b.addr))
	})
}

func (u use) services() []string {
	if u.service == "" {
		return nil
	}
	return []string{u.service}
}

// frontends is how many frontends the Service has in the map.
func (l *balancer) frontends(service string) int {
	n := 0
	for _, f := range l.fronts {
		if f.service == service && f.head {
			n++
		}
	}
	return n
}

func (r *reader) slotAdded(how change, u use, in []string, id uint32) {
	f := r.row(KindSlot, u.services(), u.addr.String(), fmt.Sprintf("map: slot added, backend id %d%s", id, r.lb.share(u, "in", in)))
	a := u.addr.String()
	f.is, f.from, f.against = "slot "+a, []string{"agent in " + a, "pending agent in " + a, "in " + a}, "no slot "+a
	f.addr, f.polled = u.addr, true
	if r.lb.has[u] == r.lb.frontends(u.service) {
		f.edge = mapIn
	}
	r.owned(u.addr, u.service)
	switch first := r.lb.has[u] == len(in); {
	case how.silent || how.unsure:
		delete(r.fresh, u)
		delete(r.fresh, use{u.addr, ""})
	case first:
		r.fresh[u] = true
		if !r.lb.elsewhere(r.owners[u.addr], u) {
			r.fresh[use{u.addr, ""}] = true
		}
	}
	how.out(r, f)
}

func (r *reader) slotRemoved(how change, u use, in []string) {
	left := ""
	if r.lb.has[u] == 0 {
		delete(r.fresh, u)
		if n := r.lb.left(u.service); n == 0 {
			left = "; the Service has no backend left"
		}
	}
	f := r.row(KindSlot, u.services(), u.addr.String(), "map: slot removed"+r.lb.share(u, "from", in)+left)
	a := u.addr.String()
	f.is, f.from, f.against = "no slot "+a, []string{"agent out " + a, "agent gone " + a, "pending agent out " + a, "pending agent gone " + a, "out " + a}, "slot "+a
	f.addr, f.polled = u.addr, true
	if r.lb.has[u] == 0 {
		f.edge = mapOut
	}
	how.out(r, f)
}

// share says which of the Service's frontends changed, where not all did at once.
func (l *balancer) share(u use, preposition string, in []string) string {
	if u.service != "" && (len(in) >= l.frontends(u.service) || l.frontends(u.service) == 0) {
		return ""
	}
	return " " + preposition + " " + list(in)
}

// elsewhere says that another Service has a slot for the backend.
func (l *balancer) elsewhere(services []string, u use) bool {
	for _, name := range services {
		if name != u.service && l.has[use{u.addr, name}] > 0 {
			return true
		}
	}
	return false
}

// left is how many backends the Service has slots for.
func (l *balancer) left(service string) int {
	n := 0
	for _, f := range l.fronts {
		if f.service == service {
			n = max(n, len(f.active))
		}
	}
	return n
}

// list names a few things and counts the others.
func list(names []string) string {
	slices.Sort(names)
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}
