package cilium

import "net/netip"

// Affinity is one entry of an affinity map: the backend that a client's next connection to a frontend goes to.
type Affinity struct {
	Client    netip.Addr // not valid when the client is a pod, known by NetNS
	NetNS     uint64     // the cookie of the pod's network namespace
	RevNAT    uint16
	BackendID uint32
	LastUsed  uint64 // see Clock
}

// DecodeAffinity reads an entry of cilium_lb4_affinity or cilium_lb6_affinity.
func DecodeAffinity(key, value []byte) (Affinity, error) {
	if len(value) != 16 {
		return Affinity{}, ErrSize
	}
	a := Affinity{LastUsed: le64(value), BackendID: le32(value[8:])}
	var client, rest []byte
	switch len(key) {
	case 16:
		client, rest = key[:8], key[8:]
	case 24:
		client, rest = key[:16], key[16:]
	default:
		return Affinity{}, ErrSize
	}
	a.RevNAT = be16(rest)
	switch {
	case rest[2]&1 != 0:
		a.NetNS = le64(client)
	case len(client) == 8:
		a.Client = addr4(client[:4])
	default:
		a.Client = addr16(client)
	}
	return a, nil
}

// AffinityMatch is one entry of cilium_lb_affinity_match: that a backend belongs to a frontend with affinity.
type AffinityMatch struct {
	BackendID uint32
	RevNAT    uint16
}

// DecodeAffinityMatch reads an entry of cilium_lb_affinity_match.
func DecodeAffinityMatch(key, value []byte) (AffinityMatch, error) {
	if len(key) != 8 || len(value) != 1 {
		return AffinityMatch{}, ErrSize
	}
	return AffinityMatch{BackendID: le32(key), RevNAT: be16(key[4:])}, nil
}
