package cilium

import (
	"fmt"
	"net/netip"
)

// NAT is one entry of an SNAT map: what a connection's packets are rewritten to. A connection has two: OUT rewrites
// the source of its packets, IN the destination of their replies.
type NAT struct {
	Source      netip.AddrPort // of the packet before it is rewritten
	Destination netip.AddrPort
	Proto       Proto
	Direction   Direction // Out or In
	Related     bool      // of ICMP errors about the connection
	Service     bool

	To      netip.AddrPort
	Created uint64 // see Clock
	NeedsCT bool   // the connection may not be tracked otherwise, as with an egress gateway
}

// String names the entry as `cilium-dbg bpf nat list` does, without its age and NeedsCT, for example
// "TCP OUT 10.42.0.5:40404 -> 192.0.2.1:443 XLATE_SRC 192.168.96.10:40404".
func (n NAT) String() string {
	marks, end := "", "SRC"
	if n.Related {
		marks += "related "
	}
	if n.Service {
		marks += "service "
	}
	if n.Direction == In {
		end = "DST"
	}
	return fmt.Sprintf("%s %s %s -> %s %sXLATE_%s %s", n.Proto, n.Direction, n.Source, n.Destination, marks, end, n.To)
}

// DecodeNAT reads an entry of cilium_snat_v4_external or cilium_snat_v6_external.
func DecodeNAT(key, value []byte) (NAT, error) {
	n, err := decodeNATKey(key)
	switch {
	case err != nil:
		return NAT{}, err
	case len(key) == 14 && len(value) == 40:
		n.To = netip.AddrPortFrom(addr4(value[32:36]), be16(value[36:]))
	case len(key) == 38 && len(value) == 56:
		n.To = netip.AddrPortFrom(addr16(value[32:48]), be16(value[48:]))
	default:
		return NAT{}, ErrSize
	}
	n.Created, n.NeedsCT = le64(value), le64(value[8:]) != 0
	return n, nil
}

// decodeNATKey reads a tuple like those of CT maps; here its addresses and ports are the packet's.
func decodeNATKey(key []byte) (NAT, error) {
	var daddr, saddr netip.Addr
	switch len(key) {
	case 14:
		daddr, saddr, key = addr4(key[:4]), addr4(key[4:8]), key[8:]
	case 38:
		daddr, saddr, key = addr16(key[:16]), addr16(key[16:32]), key[32:]
	default:
		return NAT{}, ErrSize
	}
	flags := key[5]
	n := NAT{
		Destination: netip.AddrPortFrom(daddr, be16(key)),
		Source:      netip.AddrPortFrom(saddr, be16(key[2:])),
		Proto:       Proto(key[4]),
		Related:     flags&tupleRelated != 0,
		Service:     flags&tupleService != 0,
	}
	if flags&tupleIn != 0 {
		n.Direction = In
	}
	return n, nil
}
