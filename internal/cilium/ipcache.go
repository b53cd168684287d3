package cilium

import "net/netip"

// IPCacheEntry is one entry of the ipcache: which identity a prefix has, and where it lives.
type IPCacheEntry struct {
	Prefix   netip.Prefix // not valid for an unknown family, or a length that is none of an address
	Cluster  uint16       // 0 is this cluster
	Identity uint32
	Tunnel   netip.Addr // the node to tunnel to; not valid without one
	Key      uint8      // of the encryption, 0 without
	Flags    IPCacheFlags
}

// IPCacheFlags are all bits as read.
type IPCacheFlags uint8

const (
	IPCacheSkipTunnel IPCacheFlags = 1 << iota
	IPCacheHasTunnel
	IPCacheTunnelIPv6
	IPCacheRemoteCluster
)

// DecodeIPCache reads an entry of cilium_ipcache_v2, or of cilium_ipcache, which up to Cilium 1.17 has room for the
// IPv4 address of a tunnel only and no flag that there is one.
func DecodeIPCache(key, value []byte) (IPCacheEntry, error) {
	if len(key) != 24 || (len(value) != 24 && len(value) != 12) {
		return IPCacheEntry{}, ErrSize
	}
	end := value[len(value)-2:]
	e := IPCacheEntry{
		// The length counts the cluster's id, a byte of padding and the family as well.
		Prefix:   prefix(familyAddr(key[7], key[8:]), le32(key)-32),
		Cluster:  le16(key[4:]),
		Identity: le32(value),
		Key:      end[0],
		Flags:    IPCacheFlags(end[1]),
	}
	switch {
	case len(value) == 12:
		if le32(value[4:]) != 0 {
			e.Tunnel = addr4(value[4:8])
		}
	case e.Flags&IPCacheHasTunnel == 0:
	case e.Flags&IPCacheTunnelIPv6 != 0:
		e.Tunnel = addr16(value[4:20])
	default:
		e.Tunnel = addr4(value[4:8])
	}
	return e, nil
}
