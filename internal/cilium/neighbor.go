package cilium

import "net/netip"

// Neighbor is one entry of a NodePort neighbour map: the MAC address that a client's packets came from.
type Neighbor struct {
	Address netip.Addr
	MAC     MAC
}

// DecodeNeighbor reads an entry of cilium_nodeport_neigh4 or cilium_nodeport_neigh6.
func DecodeNeighbor(key, value []byte) (Neighbor, error) {
	if len(value) != 8 {
		return Neighbor{}, ErrSize
	}
	n := Neighbor{MAC: MAC(value[:6])}
	switch len(key) {
	case 4:
		n.Address = addr4(key)
	case 16:
		n.Address = addr16(key)
	default:
		return Neighbor{}, ErrSize
	}
	return n, nil
}
