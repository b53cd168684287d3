package cilium

import "net/netip"

// SkipLB is one entry of a skip map: sockets of this network namespace reach Frontend without load balancing.
type SkipLB struct {
	NetNS    uint64 // the cookie of the pod's network namespace
	Frontend netip.AddrPort
}

// DecodeSkipLB reads an entry of cilium_skip_lb4 or cilium_skip_lb6.
func DecodeSkipLB(key, value []byte) (SkipLB, error) {
	if len(value) != 1 {
		return SkipLB{}, ErrSize
	}
	switch len(key) {
	case 16:
		return SkipLB{le64(key), netip.AddrPortFrom(addr4(key[8:12]), be16(key[12:]))}, nil
	case 32:
		return SkipLB{le64(key), netip.AddrPortFrom(addr16(key[8:24]), be16(key[28:]))}, nil
	}
	return SkipLB{}, ErrSize
}
