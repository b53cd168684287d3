package projections

import (
	"encoding/binary"
	"net/netip"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// LB is the load balancer's maps, decoded and joined.
type LB struct {
	frontends map[frontendKey]*Frontend
	backends  map[backendKey]cilium.Backend
}

type frontendKey struct {
	address netip.AddrPort
	proto   cilium.Proto
	scope   uint8
}

type backendKey struct {
	v6 bool
	id uint32
}

// Frontend is one address of a Service, with what slot 0 says of it and the backend id of each other slot. It is
// made of the entries that are in the map, never of their order or of those that were.
type Frontend struct {
	Address netip.AddrPort
	Proto   cilium.Proto
	Scope   uint8
	Head    bool   // slot 0 is there; without it ID, Count and Flags are not known
	ID      uint16 // rev-NAT id, which is the agent's Service id
	Count   uint16
	Flags   cilium.ServiceFlags
	Slots   map[uint16]uint32
}

func newLB() LB {
	return LB{map[frontendKey]*Frontend{}, map[backendKey]cilium.Backend{}}
}

func (l *LB) addService(key, value []byte) {
	e, err := cilium.DecodeService(key, value)
	if err != nil {
		return
	}
	k := frontendKey{e.Frontend, e.Proto, e.Scope}
	f := l.frontends[k]
	if f == nil {
		f = &Frontend{Address: e.Frontend, Proto: e.Proto, Scope: e.Scope, Slots: map[uint16]uint32{}}
		l.frontends[k] = f
	}
	if e.Head() {
		f.Head, f.ID, f.Count, f.Flags = true, e.RevNAT, e.Count, e.Flags
		return
	}
	f.Slots[e.Slot] = e.BackendID
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
	if e.Head() {
		f.Head, f.ID, f.Count, f.Flags = false, 0, 0, 0
	} else {
		delete(f.Slots, e.Slot)
	}
	if !f.Head && len(f.Slots) == 0 {
		delete(l.frontends, k)
	}
}

func (l *LB) addBackend(kind cilium.Kind, key, value []byte) {
	if b, err := cilium.DecodeBackend(key, value); err == nil {
		l.backends[backendKey{kind == cilium.Backends6, b.ID}] = b
	}
}

func (l *LB) removeBackend(kind cilium.Kind, key []byte) {
	if len(key) == 4 {
		delete(l.backends, backendKey{kind == cilium.Backends6, binary.NativeEndian.Uint32(key)})
	}
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
