package cilium

import (
	"encoding/binary"
	"net/netip"
)

// RevNAT is one entry of a reverse NAT map: the frontend that an id stands for.
type RevNAT struct {
	ID       uint16
	Frontend netip.AddrPort
}

// DecodeRevNAT reads an entry of cilium_lb4_reverse_nat or cilium_lb6_reverse_nat.
func DecodeRevNAT(key, value []byte) (RevNAT, error) {
	if len(key) != 2 {
		return RevNAT{}, ErrSize
	}
	r := RevNAT{ID: be16(key)}
	switch len(value) {
	case 6:
		r.Frontend = netip.AddrPortFrom(addr4(value[:4]), be16(value[4:]))
	case 18:
		r.Frontend = netip.AddrPortFrom(addr16(value[:16]), be16(value[16:]))
	default:
		return RevNAT{}, ErrSize
	}
	return r, nil
}

// SockRevNAT is one translation that socket load balancing made: this socket asked for Frontend and is connected to
// Backend.
type SockRevNAT struct {
	Cookie   uint64 // the socket's
	Backend  netip.AddrPort
	Frontend netip.AddrPort
	RevNAT   uint16
}

// SockRevNATKey is the key of a socket's translation to a backend.
func SockRevNATKey(cookie uint64, backend netip.AddrPort) []byte {
	size := 16
	if backend.Addr().Is6() {
		size = 32
	}
	key := binary.LittleEndian.AppendUint64(make([]byte, 0, size), cookie)
	key = append(key, backend.Addr().AsSlice()...)
	key = binary.BigEndian.AppendUint16(key, backend.Port())
	return key[:size]
}

// DecodeSockRevNAT reads an entry of cilium_lb4_reverse_sk or cilium_lb6_reverse_sk.
func DecodeSockRevNAT(key, value []byte) (SockRevNAT, error) {
	switch {
	case len(key) == 16 && len(value) == 8:
		return SockRevNAT{
			Cookie:   le64(key),
			Backend:  netip.AddrPortFrom(addr4(key[8:12]), be16(key[12:])),
			Frontend: netip.AddrPortFrom(addr4(value[:4]), be16(value[4:])),
			RevNAT:   be16(value[6:]),
		}, nil
	case len(key) == 32 && len(value) == 20:
		return SockRevNAT{
			Cookie:   le64(key),
			Backend:  netip.AddrPortFrom(addr16(key[8:24]), be16(key[24:])),
			Frontend: netip.AddrPortFrom(addr16(value[:16]), be16(value[16:])),
			RevNAT:   be16(value[18:]),
		}, nil
	}
	return SockRevNAT{}, ErrSize
}
