package cilium

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// CT is one connection tracking entry. Source and Destination are of the connection's first packet, whichever way
// the key has them.
type CT struct {
	Source      netip.AddrPort
	Destination netip.AddrPort
	Proto       Proto
	Direction   Direction
	Related     bool // of ICMP errors about the connection

	Packets        uint64
	Bytes          uint64
	Lifetime       uint32 // when it expires, see Clock
	Flags          CTFlags
	RevNAT         uint16
	NATPort        uint16 // that a pod's source port became, from Cilium 1.19; 0 where it stayed
	TxFlags        uint8  // all TCP flags seen in each direction
	RxFlags        uint8
	SourceIdentity uint32
	LastTx         uint32 // when a packet was last reported, see Clock
	LastRx         uint32

	// BackendID is the backend chosen for the connection. Only entries of direction SVC have it; the bytes of
	// others may hold an address there.
	BackendID uint32
}

// Direction is an entry's role.
type Direction uint8

const (
	Out Direction = iota // from a pod
	In                   // to a pod
	Svc                  // to a frontend, before translation
)

// String is OUT, IN or SVC.
func (d Direction) String() string {
	switch d {
	case In:
		return "IN"
	case Svc:
		return "SVC"
	}
	return "OUT"
}

// The tuple's flags.
const (
	tupleIn      = 1
	tupleRelated = 2
	tupleService = 4
)

// String names the entry as `cilium-dbg bpf ct list` does, for example "TCP OUT 10.42.0.5:40404 -> 10.42.0.9:80".
// IPv6 addresses stand in brackets, which that command leaves out.
func (c CT) String() string {
	related := ""
	if c.Related {
		related = " related"
	}
	return fmt.Sprintf("%s %s %s -> %s%s", c.Proto, c.Direction, c.Source, c.Destination, related)
}

// Closing says that one side has sent FIN or RST: the entry lives on only for packets that come late.
func (c CT) Closing() bool { return c.Flags&(CTRxClosing|CTTxClosing) != 0 }

// DecodeCT reads an entry of one of the CT maps.
func DecodeCT(key, value []byte) (CT, error) {
	c, err := DecodeCTKey(key)
	if err != nil || len(value) != 56 {
		return CT{}, ErrSize
	}
	c.Packets, c.Bytes = le64(value[16:]), le64(value[24:])
	c.Lifetime = le32(value[32:])
	c.Flags = CTFlags(le16(value[36:]))
	c.RevNAT = be16(value[38:])
	c.TxFlags, c.RxFlags = value[42], value[43]
	c.SourceIdentity = le32(value[44:])
	c.LastTx, c.LastRx = le32(value[48:]), le32(value[52:])
	switch {
	case c.Direction == Svc:
		c.BackendID = uint32(le64(value[8:]))
	case c.Direction == Out && le64(value)|le64(value[8:]) != 0:
		// Up to 1.17 an interface's index may lie where the port does, but never an address before it.
		c.NATPort = be16(value[40:])
	}
	return c, nil
}

// DecodeCTKey reads the key alone, as a deleted entry has it. What the value would say stays 0.
func DecodeCTKey(key []byte) (CT, error) {
	var daddr, saddr netip.Addr
	switch len(key) {
	case 14:
		daddr, saddr, key = addr4(key[:4]), addr4(key[4:8]), key[8:]
	case 38:
		daddr, saddr, key = addr16(key[:16]), addr16(key[16:32]), key[32:]
	default:
		return CT{}, ErrSize
	}
	dport, sport, flags := be16(key), be16(key[2:]), key[5]
	c := CT{Proto: Proto(key[4]), Related: flags&tupleRelated != 0}
	// The key's addresses are those of a reply, its ports those of the first packet; of a service's entry the
	// addresses are the first packet's and the ports are swapped.
	switch {
	case flags&tupleService != 0:
		c.Direction = Svc
		c.Source, c.Destination = netip.AddrPortFrom(saddr, dport), netip.AddrPortFrom(daddr, sport)
		return c, nil
	case flags&tupleIn != 0:
		c.Direction = In
	}
	c.Source, c.Destination = netip.AddrPortFrom(daddr, sport), netip.AddrPortFrom(saddr, dport)
	return c, nil
}

// CTFlags are the flags of a connection, all bits as read.
type CTFlags uint16

const (
	CTRxClosing CTFlags = 1 << iota
	CTTxClosing
	CTNAT64
	CTLoopback
	CTSeenNonSyn
	CTNodePort
	CTProxyRedirect
	CTDSRInternal
	CTFromL7LB
	ctReserved
	CTFromTunnel
	ctKnown = iota
)

// String lists the flags as `cilium-dbg bpf ct list` does between its brackets, bits without a name as a number.
func (f CTFlags) String() string {
	names := [ctKnown]string{"RxClosing", "TxClosing", "Nat64", "LBLoopback", "SeenNonSyn", "NodePort",
		"ProxyRedirect", "DSRInternal", "FromL7LB", "", "FromTunnel"}
	var set []string
	for i, name := range names {
		if f&(1<<i) != 0 && name != "" {
			set = append(set, name)
		}
	}
	if rest := f &^ (1<<ctKnown - 1); rest != 0 {
		set = append(set, fmt.Sprintf("Unknown=%#04x", uint16(rest)))
	}
	return strings.Join(set, " ")
}

// CTKeyService says that a key is of direction SVC. Like CTServiceBackend it is for going through many.
func CTKeyService(key string) bool {
	n := len(key)
	return (n == 14 || n == 38) && key[n-1]&(tupleService|tupleRelated) == tupleService
}

// CTServiceBackend reads of the value of an entry of direction SVC which backend was chosen for the connection, and
// whether that is closing; zeros of another size.
func CTServiceBackend(value string) (backend uint32, closing bool) {
	if len(value) != 56 {
		return 0, false
	}
	b := [4]byte{value[8], value[9], value[10], value[11]}
	f := [2]byte{value[36], value[37]}
	return le32(b[:]), CTFlags(le16(f[:]))&(CTRxClosing|CTTxClosing) != 0
}

// CTKeyOut is the key of a pod's connection in direction OUT.
func CTKeyOut(source, destination netip.AddrPort, p Proto) []byte {
	key := append(source.Addr().AsSlice(), destination.Addr().AsSlice()...)
	key = binary.BigEndian.AppendUint16(key, destination.Port())
	key = binary.BigEndian.AppendUint16(key, source.Port())
	return append(key, byte(p), 0)
}

// CTKeyPorts returns the two ports of a key, in the order of its bytes, whatever the connection's direction. It is
// for going through many keys of which few are decoded; other sizes give zeros.
func CTKeyPorts(key string) (a, b uint16) {
	n := len(key)
	if n != 14 && n != 38 {
		return 0, 0
	}
	// Ports, protocol and flags are the last six bytes.
	return uint16(key[n-6])<<8 | uint16(key[n-5]), uint16(key[n-4])<<8 | uint16(key[n-3])
}
