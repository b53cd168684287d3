package cilium

import "net/netip"

// SourceRange is one entry of a source range map: clients that a frontend takes, or refuses.
type SourceRange struct {
	RevNAT uint16
	Prefix netip.Prefix // not valid where the length is none of an address
}

// DecodeSourceRange reads an entry of cilium_lb4_source_range or cilium_lb6_source_range.
func DecodeSourceRange(key, value []byte) (SourceRange, error) {
	if len(value) != 1 {
		return SourceRange{}, ErrSize
	}
	var addr netip.Addr
	switch len(key) {
	case 12:
		addr = addr4(key[8:])
	case 24:
		addr = addr16(key[8:])
	default:
		return SourceRange{}, ErrSize
	}
	// The length counts the rev-NAT id and the two bytes after it as well.
	return SourceRange{RevNAT: be16(key[4:]), Prefix: prefix(addr, le32(key)-32)}, nil
}
