package cilium

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// ErrSize says that a key or a value has not the size of the map it is decoded as.
var ErrSize = errors.New("key or value is not of the map's size")

func be16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func le16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func addr4(b []byte) netip.Addr  { return netip.AddrFrom4([4]byte(b)) }
func addr16(b []byte) netip.Addr { return netip.AddrFrom16([16]byte(b)) }

// familyAddr reads the 16-byte address of maps that hold both families: IPv4 lies in its first four bytes. A family
// that is neither gives the zero Addr.
func familyAddr(family uint8, b []byte) netip.Addr {
	switch family {
	case 1:
		return addr4(b[:4])
	case 2:
		return addr16(b[:16])
	}
	return netip.Addr{}
}

// prefix is the prefix of addr with this many bits, and the zero Prefix where that is none.
func prefix(addr netip.Addr, bits uint32) netip.Prefix {
	if !addr.IsValid() || bits > uint32(addr.BitLen()) {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr, int(bits))
}
