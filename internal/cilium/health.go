package cilium

// Health is one entry of a health map: the backend that a probing socket was sent to.
type Health struct {
	Cookie uint64  // the socket's
	Peer   Backend // its ID is not in the map
}

// DecodeHealth reads an entry of cilium_lb4_health or cilium_lb6_health.
func DecodeHealth(key, value []byte) (Health, error) {
	if len(key) != 8 {
		return Health{}, ErrSize
	}
	peer, err := decodePeer(value)
	if err != nil {
		return Health{}, err
	}
	return Health{Cookie: le64(key), Peer: peer}, nil
}
