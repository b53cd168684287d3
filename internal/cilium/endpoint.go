package cilium

import (
	"fmt"
	"net/netip"
)

// Endpoint is one entry of cilium_lxc: an address that lives on this node.
type Endpoint struct {
	Address       netip.Addr
	ID            uint16 // the endpoint's
	IfIndex       uint32
	ParentIfIndex uint32
	Identity      uint32
	MAC           MAC // of the pod's side of its device
	NodeMAC       MAC
	Flags         uint32
}

// Host says that the address is the node's own; such an entry has nothing else.
func (e Endpoint) Host() bool { return e.Flags&1 != 0 }

// DecodeEndpoint reads an entry of cilium_lxc. The address of an unknown family is not valid.
func DecodeEndpoint(key, value []byte) (Endpoint, error) {
	if len(key) != 20 || len(value) != 48 {
		return Endpoint{}, ErrSize
	}
	return Endpoint{
		Address:       familyAddr(key[16], key),
		IfIndex:       le32(value),
		ID:            le16(value[6:]),
		Flags:         le32(value[8:]),
		MAC:           MAC(value[16:22]),
		NodeMAC:       MAC(value[24:30]),
		Identity:      le32(value[32:]),
		ParentIfIndex: le32(value[36:]),
	}, nil
}

// MAC is an Ethernet address.
type MAC [6]byte

// String is the address in lower case with colons.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}
