package projections

import (
	"cmp"
	"encoding/binary"
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
	keys      []frontendKey             // ascending; none when it is gone
	byAddress map[netip.AddrPort]uint32 // the backends of its slots
	sides     *sides
}

func (s *State) connections() *connections {
	c := &connections{s: s, fronts: map[revNAT]*front{}}
	for _, v6 := range []bool{false, true} {
		for _, m := range s.conntracks(v6) {
			c.takePackets(m, v6)
		}
	}
	c.takeSockets()
	c.cut()
	slices.SortFunc(c.kept, func(a, b connection) int { return a.compare(&b) })
	return c
}

func (c *connections) takePackets(m *Map, v6 bool) {
	for id, keys := range m.served {
		for key := range keys {
			v := m.Entries[key]
			e, err := cilium.DecodeCT([]byte(key), []byte(v.Bytes))
			if err != nil {
				continue
			}
			x := connection{client: e.Source, frontend: e.Destination, proto: e.Proto, id: revNAT{v6, e.RevNAT}, backendID: id,
				sinceNs: v.SinceNs, tracked: true, closing: e.Closing()}
			if b, ok := c.s.LB.backends[backendKey{v6, id}]; ok {
				x.backend = b.Address
			} else if g, ok := c.s.LB.goneBackend(backendKey{v6, id}); ok {
				x.backend = g.Address
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

// takeSockets finds the translation that each pod's socket was connected with, by its cookie and the address it has now.
func (c *connections) takeSockets() {
	for pod, of := range c.s.Host.PodSockets {
		for _, sock := range of.sockets {
			if sock.Cookie != 0 && sock.State != "LISTEN" {
				c.takeSocket(pod, sock)
			}
		}
	}
}

func (c *connections) takeSocket(pod Name, sock *eventpb.Socket) {
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
	translations, conntrack := cilium.SockRevNAT4, cilium.CT4TCP
	if v6 {
		translations, conntrack = cilium.SockRevNAT6, cilium.CT6TCP
	}
	m := c.s.mapOf(translations)
	if m == nil {
		return
	}
	key := sockKey(sock.Cookie, remote)
	v, ok := m.Entries[string(key)]
	if !ok {
		return
	}
	t, err := cilium.DecodeSockRevNAT(key, []byte(v.Bytes))
	if err != nil {
		return
	}
	c.translated++
	x := connection{client: local, frontend: t.Frontend, backend: remote, proto: cilium.TCP, id: revNAT{v6, t.RevNAT}, socket: sock, pod: pod}
	x.backendID = c.front(x.id).byAddress[remote]
	x.outlived = x.backendID == 0
	x.track(c.s.mapOf(conntrack))
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

// sockKey is a key of the reverse socket maps.
func sockKey(cookie uint64, backend netip.AddrPort) []byte {
	size := 16
	if backend.Addr().Is6() {
		size = 32
	}
	key := binary.NativeEndian.AppendUint64(make([]byte, 0, size), cookie)
	key = append(key, backend.Addr().AsSlice()...)
	key = binary.BigEndian.AppendUint16(key, backend.Port())
	return key[:size]
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
	f := &front{byAddress: map[netip.AddrPort]uint32{}}
	for k := range c.s.LB.ids[id] {
		f.keys = append(f.keys, k)
		for _, b := range c.s.LB.frontends[k].Slots {
			if have, ok := c.s.LB.backends[backendKey{id.v6, b}]; ok {
				f.byAddress[unmapped(have.Address)] = b
			}
		}
	}
	slices.SortFunc(f.keys, frontendKey.compare)
	c.fronts[id] = f
	return f
}
