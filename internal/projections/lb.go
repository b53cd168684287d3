package projections

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// LB is the load balancer's maps, decoded and joined.
type LB struct {
	frontends map[frontendKey]*Frontend
	backends  map[backendKey]cilium.Backend
	byAddress map[l4][]backendKey                 // the backends by address and protocol, ascending
	users     map[backendKey]map[frontendKey]int  // in how many slots of each frontend a backend is
	ports     map[uint16]map[frontendKey]struct{} // frontends of types NodePort and HostPort
	ids       map[revNAT]map[frontendKey]struct{} // frontends by rev-NAT id
	ranges    map[revNAT]map[netip.Prefix]struct{}
	slotCount int                      // of all frontends
	order     []frontendKey            // the frontends' keys, ascending; nil when one has come or gone
	gone      []GoneBackend            // in order of when they went
	goneLast  map[backendKey]int       // where in gone, from its first one that was ever in it, an id went last
	forgotten int                      // how many of gone were dropped
	touched   map[frontendKey]struct{} // by the event that is being folded
	stirred   map[backendKey]struct{}  // by that event: came, went, or is gone and what leads to it changed
	vacated   []vacated                // by that event
}

// revNAT is a rev-NAT id, which each family has its own of.
type revNAT struct {
	v6 bool
	id uint16
}

type frontendKey struct {
	address netip.AddrPort
	proto   cilium.Proto
	scope   uint8
}

func (k frontendKey) v6() bool { return k.address.Addr().Is6() }

// String is the key as `cilium-dbg bpf lb list` writes it, without the slot: 10.43.0.1:443/TCP, with /i for the
// internal scope.
func (k frontendKey) String() string {
	text := k.address.String() + "/" + k.proto.String()
	if k.scope != 0 {
		text += "/i"
	}
	return text
}

func (k frontendKey) compare(o frontendKey) int {
	if c := k.address.Compare(o.address); c != 0 {
		return c
	}
	if k.proto != o.proto {
		return int(k.proto) - int(o.proto)
	}
	return int(k.scope) - int(o.scope)
}

type backendKey struct {
	v6 bool
	id uint32
}

// Frontend is one address of a Service, with what slot 0 says of it and the backend id of each other slot. It is
// made of the entries that are in the map, never of their order or of those that were.
type Frontend struct {
	Address   netip.AddrPort
	Proto     cilium.Proto
	Scope     uint8
	Head      bool   // slot 0 is there; without it the fields up to Flags are not known
	ID        uint16 // rev-NAT id, which is the agent's Service id
	Count     uint16 // slots from 1 that name backends
	QCount    uint16 // slots behind them that name quarantined ones
	Affinity  uint32 // seconds, 0 without session affinity
	Algorithm uint8
	L7Port    uint16
	Flags     cilium.ServiceFlags
	Slots     map[uint16]uint32

	rev uint64 // position at which it, or what its row in services.json is made of, changed last
}

// GoneBackend is a backend that left its map.
type GoneBackend struct {
	V6      bool
	ID      uint32
	Address netip.AddrPort
	Proto   cilium.Proto
	GoneNs  int64
	Seq     uint64 // of the event that told
}

// maxGone bounds the memory of backends that are gone; the oldest are forgotten.
const maxGone = 4096

func newLB() LB {
	return LB{
		frontends: map[frontendKey]*Frontend{}, backends: map[backendKey]cilium.Backend{},
		byAddress: map[l4][]backendKey{}, users: map[backendKey]map[frontendKey]int{}, ports: map[uint16]map[frontendKey]struct{}{},
		ids: map[revNAT]map[frontendKey]struct{}{}, ranges: map[revNAT]map[netip.Prefix]struct{}{},
		goneLast: map[backendKey]int{}, touched: map[frontendKey]struct{}{}, stirred: map[backendKey]struct{}{},
	}
}

func (l *LB) touch(k frontendKey) { l.touched[k] = struct{}{} }

func (l *LB) touchBackend(b backendKey) { l.stirred[b] = struct{}{} }

func (l *LB) addService(key, value []byte) {
	e, err := cilium.DecodeService(key, value)
	if err != nil {
		return
	}
	k := frontendKey{e.Frontend, e.Proto, e.Scope}
	l.touch(k)
	f := l.frontends[k]
	if f == nil {
		f = &Frontend{Address: e.Frontend, Proto: e.Proto, Scope: e.Scope, Slots: map[uint16]uint32{}}
		l.frontends[k] = f
		l.order = nil
	}
	if e.Head() {
		l.indexID(k, f, false)
		f.Head, f.ID, f.Count, f.QCount, f.Flags = true, e.RevNAT, e.Count, e.QCount, e.Flags
		f.Affinity, f.Algorithm, f.L7Port = e.AffinityTimeout, e.Algorithm, e.L7Port
		l.indexPort(k, f)
		l.indexID(k, f, true)
		return
	}
	l.unuse(k, f, e.Slot)
	f.Slots[e.Slot] = e.BackendID
	l.slotCount++
	b := backendKey{k.v6(), e.BackendID}
	if l.users[b] == nil {
		l.users[b] = map[frontendKey]int{}
	}
	l.users[b][k]++
}

// removeService takes a value of zeros, as only the key of a deleted entry is known.
func (l *LB) removeService(key, zeros []byte) {
	e, err := cilium.DecodeService(key, zeros)
	if err != nil {
		return
	}
	k := frontendKey{e.Frontend, e.Proto, e.Scope}
	f := l.frontends[k]
	if f == nil {
		return
	}
	l.touch(k)
	if e.Head() {
		l.indexID(k, f, false)
		*f = Frontend{Address: f.Address, Proto: f.Proto, Scope: f.Scope, Slots: f.Slots}
		l.indexPort(k, f)
	} else {
		l.unuse(k, f, e.Slot)
	}
	if !f.Head && len(f.Slots) == 0 {
		delete(l.frontends, k)
		l.order = nil
	}
}

// unuse takes the backend out of a slot, where one is in it.
func (l *LB) unuse(k frontendKey, f *Frontend, slot uint16) {
	id, ok := f.Slots[slot]
	if !ok {
		return
	}
	delete(f.Slots, slot)
	l.slotCount--
	b := backendKey{k.v6(), id}
	if l.users[b][k]--; l.users[b][k] == 0 {
		delete(l.users[b], k)
		if at, ok := l.lastAddress(b); ok {
			l.vacated = append(l.vacated, vacated{k, b, at})
		}
	}
	if len(l.users[b]) == 0 {
		delete(l.users, b)
	}
}

func (l *LB) indexPort(k frontendKey, f *Frontend) {
	port := k.address.Port()
	switch onNode := f.Flags&(cilium.FlagNodePort|cilium.FlagHostPort) != 0; {
	case onNode && l.ports[port] == nil:
		l.ports[port] = map[frontendKey]struct{}{k: {}}
	case onNode:
		l.ports[port][k] = struct{}{}
	default:
		if delete(l.ports[port], k); len(l.ports[port]) == 0 {
			delete(l.ports, port)
		}
	}
}

// indexID takes a frontend in under its rev-NAT id, or out. Wildcards have id 0.
func (l *LB) indexID(k frontendKey, f *Frontend, in bool) {
	id := revNAT{k.v6(), f.ID}
	switch {
	case !f.Head || f.ID == 0:
	case !in:
		if delete(l.ids[id], k); len(l.ids[id]) == 0 {
			delete(l.ids, id)
		}
	case l.ids[id] == nil:
		l.ids[id] = map[frontendKey]struct{}{k: {}}
	default:
		l.ids[id][k] = struct{}{}
	}
}

// rangeEntry takes an entry of a source range map in, or out.
func (l *LB) rangeEntry(kind cilium.Kind, key []byte, in bool) {
	e, err := cilium.DecodeSourceRange(key, []byte{0})
	if err != nil {
		return
	}
	id := revNAT{kind == cilium.SourceRange6, e.RevNAT}
	switch {
	case !in:
		if delete(l.ranges[id], e.Prefix); len(l.ranges[id]) == 0 {
			delete(l.ranges, id)
		}
	case l.ranges[id] == nil:
		l.ranges[id] = map[netip.Prefix]struct{}{e.Prefix: {}}
	default:
		l.ranges[id][e.Prefix] = struct{}{}
	}
	for k := range l.ids[id] {
		l.touch(k)
	}
}

// ordered are the keys of all frontends, ascending. They belong to LB.
func (l *LB) ordered() []frontendKey {
	if l.order == nil {
		l.order = slices.SortedFunc(maps.Keys(l.frontends), frontendKey.compare)
	}
	return l.order
}

func (l *LB) addBackend(kind cilium.Kind, key, value []byte) {
	if b, err := cilium.DecodeBackend(key, value); err == nil {
		k := backendKey{kind == cilium.Backends6, b.ID}
		l.unaddress(k)
		l.backends[k] = b
		l.address(l4{b.Address, b.Proto}, k)
		l.touchUsers(k)
		l.touchBackend(k)
	}
}

func (l *LB) removeBackend(kind cilium.Kind, key []byte, ns int64, seq uint64) {
	if len(key) != 4 {
		return
	}
	k := backendKey{kind == cilium.Backends6, binary.NativeEndian.Uint32(key)}
	l.unaddress(k)
	if b, ok := l.backends[k]; ok {
		l.remember(GoneBackend{k.v6, b.ID, b.Address, b.Proto, ns, seq})
	}
	delete(l.backends, k)
	l.touchUsers(k)
	l.touchBackend(k)
}

func (l *LB) address(at l4, k backendKey) {
	if i, found := slices.BinarySearchFunc(l.byAddress[at], k, backendKey.compare); !found {
		l.byAddress[at] = slices.Insert(l.byAddress[at], i, k)
	}
}

func (l *LB) unaddress(k backendKey) {
	b := l.backends[k]
	at := l4{b.Address, b.Proto}
	if i, found := slices.BinarySearchFunc(l.byAddress[at], k, backendKey.compare); found {
		if l.byAddress[at] = slices.Delete(l.byAddress[at], i, i+1); len(l.byAddress[at]) == 0 {
			delete(l.byAddress, at)
		}
	}
}

// lastAddress is where a backend is, or was before it went.
func (l *LB) lastAddress(k backendKey) (l4, bool) {
	if b, ok := l.backends[k]; ok {
		return l4{b.Address, b.Proto}, true
	}
	g, ok := l.goneBackend(k)
	return l4{g.Address, g.Proto}, ok
}

func (l *LB) touchUsers(b backendKey) {
	for k := range l.users[b] {
		l.touch(k)
	}
}

// remember keeps a backend that is gone, and forgets the oldest.
func (l *LB) remember(g GoneBackend) {
	l.gone = append(l.gone, g)
	l.goneLast[backendKey{g.V6, g.ID}] = l.forgotten + len(l.gone) - 1
	for len(l.gone) > maxGone {
		oldest := backendKey{l.gone[0].V6, l.gone[0].ID}
		if l.goneLast[oldest] == l.forgotten {
			delete(l.goneLast, oldest)
		}
		l.gone = l.gone[1:]
		l.forgotten++
	}
}

// goneBackend tells which backend last had an id that is in the map no more; false for one that was never seen or is
// forgotten.
func (l *LB) goneBackend(k backendKey) (GoneBackend, bool) {
	i, ok := l.goneLast[k]
	if !ok {
		return GoneBackend{}, false
	}
	return l.gone[i-l.forgotten], true
}

// frontend returns the TCP frontend of the external scope: the one that decides for ClusterIPs, and for NodePorts
// requested from outside. Entries written before Cilium told protocols apart have protocol 0.
func (l *LB) frontend(address netip.AddrPort) (*Frontend, bool) {
	for _, proto := range []cilium.Proto{cilium.TCP, cilium.Any} {
		if f := l.frontends[frontendKey{address, proto, 0}]; f != nil && f.Head {
			return f, true
		}
	}
	return nil, false
}

// slots returns the addresses of the frontend's backends, ascending and each once. Slot 0 is the frontend itself.
// A slot whose backend is not in the map has no address and is left out.
func (l *LB) slots(f *Frontend) []netip.AddrPort {
	found := map[netip.AddrPort]bool{}
	for _, id := range f.Slots {
		if b, ok := l.backends[backendKey{f.Address.Addr().Is6(), id}]; ok {
			found[b.Address] = true
		}
	}
	return sortedKeys(found)
}
