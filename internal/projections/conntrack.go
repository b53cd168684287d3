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
	for k, v := range m.Entries {
		c, err := cilium.DecodeCT([]byte(k), []byte(v))
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
		for k := range m.Entries {
			c, err := cilium.DecodeCTKey([]byte(k))
			if err == nil && c.Proto == cilium.TCP && c.Direction == cilium.Svc && (c.Source.Port() == port || c.Destination.Port() == port) {
				n++
			}
		}
	}
	return n, known
}
