package projections

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// connection is one to a frontend: a conntrack entry of direction SVC (the packet path, where every packet is translated),
// or a pod's socket that was connected to a backend in the frontend's place (socket load balancing).
type connection struct {
	client, frontend, backend netip.AddrPort // backend: not valid where it is not known
	proto                     cilium.Proto
	id                        revNAT
	backendID                 uint32 // 0 where it is not known
	socket                    *eventpb.Socket
	pod                       Name  // of the socket
	sinceNs                   int64 // 0: from before the first look
	tracked, closing          bool  // there is a conntrack entry; it is closing
	outlived                  bool  // the backend has no slot of the frontend any more
}

// rank orders connections by how much they tell: those that outlived their backend, those that are not closing, the newest.
func (c *connection) rank(o *connection) int {
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	return cmp.Or(first(c.outlived, o.outlived), first(!c.closing, !o.closing), cmp.Compare(o.sinceNs, c.sinceNs), c.compare(o))
}

func (c *connection) compare(o *connection) int {
	return cmp.Or(c.client.Compare(o.client), c.frontend.Compare(o.frontend), cmp.Compare(c.proto, o.proto),
		c.backend.Compare(o.backend), cmp.Compare(c.backendID, o.backendID), c.pod.compare(o.pod))
}

// maxConnections bounds how many are listed.
const maxConnections = 1000

// connections collects them, and keeps the first by rank.
type connections struct {
	s          *State
	fronts     map[revNAT]*front
	kept       []connection
	omitted    int
	full       bool // kept was cut to the bound once
	translated int  // entries of the reverse socket maps that a socket was found for
}

// front is what connections to one rev-NAT id share.
type front struct {
	keys  []frontendKey // ascending; none when it is gone
	sides *sides
}

func (s *State) connections() *connections {
	c := &connections{s: s, fronts: map[revNAT]*front{}}
	for _, m := range s.conntracks() {
		c.takePackets(m)
	}
	c.takeSockets()
	c.cut()
	slices.SortFunc(c.kept, func(a, b connection) int { return a.compare(&b) })
	return c
}

func (c *connections) takePackets(m *Map) {
	v6 := m.v6()
	for id, keys := range m.served {
		for key := range keys {
			v := m.Entries[key]
			e, err := cilium.DecodeCT([]byte(key), []byte(v.Bytes))
			if err != nil {
				continue
			}
			x := connection{client: e.Source, frontend: e.Destination, proto: e.Proto, id: revNAT{v6, e.RevNAT}, backendID: id,
				sinceNs: v.SinceNs, tracked: true, closing: e.Closing()}
			if at, ok := c.s.LB.lastAddress(backendKey{v6, id}); ok {
				x.backend = at.address
			}
			x.outlived = !c.uses(x.id, id)
			c.add(x)
		}
	}
}

// uses says that a slot of the frontends of an id has the backend.
func (c *connections) uses(id revNAT, backend uint32) bool {
	for k := range c.s.LB.users[backendKey{id.v6, backend}] { // few, while an id may have many slots
		if f := c.s.LB.frontends[k]; f.Head && f.ID == id.id {
			return true
		}
	}
	return false
}

// slotted is the backend at an address that a slot of the frontends of an id has; 0 for none.
func (c *connections) slotted(id revNAT, at netip.AddrPort, p cilium.Proto) uint32 {
	for _, proto := range []cilium.Proto{p, cilium.Any} {
		for _, b := range c.s.LB.byAddress[l4{at, proto}] {
			if b.v6 == id.v6 && c.uses(id, b.id) {
				return b.id
			}
		}
	}
	return 0
}

// socketMaps are those of a family that tell of sockets; nil where they were not read.
type socketMaps struct{ translations, tracked *Map }

// takeSockets finds the translation that each pod's socket was connected with, by its cookie and the address it has now.
func (c *connections) takeSockets() {
	of := map[bool]socketMaps{
		false: {c.s.mapOf(cilium.SockRevNAT4), c.s.mapOf(cilium.CT4TCP)},
		true:  {c.s.mapOf(cilium.SockRevNAT6), c.s.mapOf(cilium.CT6TCP)},
	}
	for pod, has := range c.s.Host.PodSockets {
		for _, sock := range has.sockets {
			if sock.Cookie != 0 && sock.State != "LISTEN" {
				c.takeSocket(of, pod, sock)
			}
		}
	}
}

func (c *connections) takeSocket(of map[bool]socketMaps, pod Name, sock *eventpb.Socket) {
	local, err := netip.ParseAddrPort(sock.Local)
	if err != nil {
		return
	}
	remote, err := netip.ParseAddrPort(sock.Remote)
	if err != nil {
		return
	}
	local, remote = unmapped(local), unmapped(remote)
	v6 := remote.Addr().Is6()
	m := of[v6]
	if m.translations == nil {
		return
	}
	key := cilium.SockRevNATKey(sock.Cookie, remote)
	v, ok := m.translations.Entries[string(key)]
	if !ok {
		return
	}
	t, err := cilium.DecodeSockRevNAT(key, []byte(v.Bytes))
	if err != nil {
		return
	}
	c.translated++
	x := connection{client: local, frontend: t.Frontend, backend: remote, proto: cilium.TCP, id: revNAT{v6, t.RevNAT}, socket: sock, pod: pod}
	x.backendID = c.slotted(x.id, remote, x.proto)
	x.outlived = x.backendID == 0
	x.track(m.tracked)
	c.add(x)
}

// track finds a socket's conntrack entry, which is of the backend's address.
func (x *connection) track(m *Map) {
	if m == nil {
		return
	}
	key := cilium.CTKeyOut(x.client, x.backend, x.proto)
	v, ok := m.Entries[string(key)]
	if !ok {
		return
	}
	if e, err := cilium.DecodeCT(key, []byte(v.Bytes)); err == nil {
		x.tracked, x.closing, x.sinceNs = true, e.Closing(), v.SinceNs
	}
}

// unmapped is an IPv4 address without IPv6 around it, as sockets of both families have it.
func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

func (c *connections) add(x connection) {
	switch {
	case c.full && x.rank(&c.kept[maxConnections-1]) > 0:
		c.omitted++
		return
	case len(c.kept) == 4*maxConnections:
		c.cut()
	}
	c.kept = append(c.kept, x)
}

// cut drops what ranks behind the bound.
func (c *connections) cut() {
	over := len(c.kept) - maxConnections
	if over < 0 {
		return
	}
	slices.SortFunc(c.kept, func(a, b connection) int { return a.rank(&b) })
	c.kept = c.kept[:maxConnections]
	c.full = true
	c.omitted += over
}

func (c *connections) front(id revNAT) *front {
	if f := c.fronts[id]; f != nil {
		return f
	}
	f := &front{keys: slices.SortedFunc(maps.Keys(c.s.LB.ids[id]), frontendKey.compare)}
	c.fronts[id] = f
	return f
}
