package cilium

import (
	"net/netip"
	"strconv"
)

// Backend is one entry of a backends map.
type Backend struct {
	ID      uint32
	Address netip.AddrPort // of the IPv6 map: IPv4-mapped where the service translates between families
	Proto   Proto
	State   BackendState
	Cluster uint16 // 0 is this cluster
	Zone    uint8  // the agent's number for it, 0 without one
}

// DecodeBackend reads an entry of cilium_lb4_backends_v3 or cilium_lb6_backends_v3.
func DecodeBackend(key, value []byte) (Backend, error) {
	if len(key) != 4 {
		return Backend{}, ErrSize
	}
	b, err := decodePeer(value)
	if err != nil {
		return Backend{}, err
	}
	b.ID = le32(key)
	return b, nil
}

// decodePeer reads all of a backend but its ID.
func decodePeer(value []byte) (Backend, error) {
	var addr netip.Addr
	switch len(value) {
	case 12:
		addr, value = addr4(value[:4]), value[4:]
	case 24:
		addr, value = addr16(value[:16]), value[16:]
	default:
		return Backend{}, ErrSize
	}
	return Backend{
		Address: netip.AddrPortFrom(addr, be16(value)),
		Proto:   Proto(value[2]),
		State:   BackendState(value[3]),
		Cluster: le16(value[4:]),
		Zone:    value[6],
	}, nil
}

// BackendState is the state that the datapath sees, which the agent's own may differ from.
type BackendState uint8

const (
	BackendActive BackendState = iota
	BackendTerminating
	BackendQuarantined
	BackendMaintenance
)

// String is the state as Cilium spells it, and the number of one that this version does not know.
func (s BackendState) String() string {
	switch s {
	case BackendActive:
		return "active"
	case BackendTerminating:
		return "terminating"
	case BackendQuarantined:
		return "quarantined"
	case BackendMaintenance:
		return "maintenance"
	}
	return strconv.Itoa(int(s))
}
