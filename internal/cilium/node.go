package cilium

import "net/netip"

// Node is one entry of the node map: the number that the datapath knows a node's address by.
type Node struct {
	Address netip.Addr // not valid for an unknown family
	ID      uint16
	SPI     uint8 // of IPsec, 0 without
}

// DecodeNode reads an entry of cilium_node_map_v2, or of cilium_node_map, which has no SPI.
func DecodeNode(key, value []byte) (Node, error) {
	if len(key) != 20 || (len(value) != 4 && len(value) != 2) {
		return Node{}, ErrSize
	}
	n := Node{Address: familyAddr(key[3], key[4:]), ID: le16(value)}
	if len(value) == 4 {
		n.SPI = value[2]
	}
	return n, nil
}
