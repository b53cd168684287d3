package projections

import (
	"net/netip"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

func (s *State) tcpConntrack(v6 bool) *Map {
	if v6 {
		return s.mapOf(cilium.CT6TCP)
	}
	return s.mapOf(cilium.CT4TCP)
}

// liveBackend returns where the client's connection goes. A client that connected again from the same port leaves
// its older entries behind: the live one is not closing, and of those it expires last.
func (s *State) liveBackend(client netip.AddrPort) (netip.AddrPort, bool) {
	m := s.tcpConntrack(client.Addr().Is6())
	if m == nil {
		return netip.AddrPort{}, false
	}
	var best cilium.CT
	for k := range m.withPort(client.Port()) {
		c, err := cilium.DecodeCT([]byte(k), []byte(m.Entries[k].Bytes))
		if err != nil || c.Source != client || c.Direction != cilium.Out || c.Related || c.Proto != cilium.TCP || c.Closing() {
			continue
		}
		later := c.Lifetime > best.Lifetime || c.Lifetime == best.Lifetime && c.Destination.Compare(best.Destination) < 0
		if !best.Destination.IsValid() || later {
			best = c
		}
	}
	return best.Destination, best.Destination.IsValid()
}

// serviceEntries counts the TCP entries of direction SVC with the port at either end, IPv4 and IPv6; false before
// the map was read.
func (s *State) serviceEntries(port uint16) (int, bool) {
	n, known := 0, false
	for _, v6 := range []bool{false, true} {
		m := s.tcpConntrack(v6)
		if m == nil {
			continue
		}
		known = true
		for k := range m.withPort(port) {
			c, err := cilium.DecodeCTKey([]byte(k))
			if err == nil && c.Proto == cilium.TCP && c.Direction == cilium.Svc && (c.Source.Port() == port || c.Destination.Port() == port) {
				n++
			}
		}
	}
	return n, known
}

// portKeys are the keys of a conntrack map that have one port. A large map is gone through once, when it is first
// asked for that port, and followed from then on: files ask for the same one every time.
type portKeys struct {
	port uint16
	keys map[string]struct{} // nil before it is asked for
}

func (m *Map) withPort(port uint16) map[string]struct{} {
	if m.near.keys == nil || m.near.port != port {
		m.near = portKeys{port, map[string]struct{}{}}
		for k := range m.Entries {
			m.near.added(k)
		}
	}
	return m.near.keys
}

func (p *portKeys) added(key string) {
	if p.keys == nil {
		return
	}
	if a, b := cilium.CTKeyPorts(key); a == p.port || b == p.port {
		p.keys[key] = struct{}{}
	}
}

func (p *portKeys) removed(key string) { delete(p.keys, key) }
