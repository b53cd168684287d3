package cilium

import (
	"fmt"
	"net/netip"
	"strings"
)

// Service is one entry of a services map. Slot 0 is the frontend itself: how many backends it has, and its flags.
// Slots 1 … Count each name one backend; slots Count+1 … Count+QCount name the quarantined ones.
type Service struct {
	Frontend netip.AddrPort
	Proto    Proto
	Internal bool // looked up for connections from the cluster; false: from outside
	Scope    uint8
	Slot     uint16

	Count  uint16
	QCount uint16
	RevNAT uint16 // the id of the frontend in the rev-NAT map
	Flags  ServiceFlags

	BackendID       uint32 // slots from 1
	AffinityTimeout uint32 // slot 0: seconds, 0 without session affinity
	Algorithm       uint8  // slot 0: 0 is the agent's default, 1 random, 2 Maglev
	L7Port          uint16 // slot 0 of a service with FlagL7LoadBalancer: the proxy's port
}

// Head says that the entry is the frontend itself and names no backend.
func (s Service) Head() bool { return s.Slot == 0 }

// Wildcard says that the entry takes what no other frontend of its address does: such connections are dropped.
func (s Service) Wildcard() bool { return s.Frontend.Port() == 0 && s.Proto == Any }

// String names the entry as the left column of `cilium-dbg bpf lb list` does, for example "10.43.0.1:443/TCP (1)".
func (s Service) String() string {
	scope := ""
	if s.Internal {
		scope = "/i"
	}
	return fmt.Sprintf("%s/%s%s (%d)", s.Frontend, s.Proto, scope, s.Slot)
}

// DecodeService reads an entry of cilium_lb4_services_v2 or cilium_lb6_services_v2.
func DecodeService(key, value []byte) (Service, error) {
	if len(value) != 12 {
		return Service{}, ErrSize
	}
	var s Service
	var addr netip.Addr
	switch len(key) {
	case 12:
		addr, key = addr4(key[:4]), key[4:]
	case 24:
		addr, key = addr16(key[:16]), key[16:]
	default:
		return Service{}, ErrSize
	}
	s.Frontend = netip.AddrPortFrom(addr, be16(key))
	s.Slot = le16(key[2:])
	s.Proto = Proto(key[4])
	s.Scope = key[5]
	s.Internal = s.Scope == 1

	s.Count = le16(value[4:])
	s.RevNAT = be16(value[6:])
	s.Flags = ServiceFlags(le16(value[8:]))
	s.QCount = le16(value[10:])
	switch union := le32(value); {
	case s.Slot != 0:
		s.BackendID = union
	case s.Flags&FlagL7LoadBalancer != 0:
		s.L7Port = be16(value)
	default:
		s.AffinityTimeout, s.Algorithm = union&0xffffff, uint8(union>>24)
	}
	return s, nil
}

// ServiceFlags are the two flag bytes of a service's entry, all bits as read.
type ServiceFlags uint16

const (
	FlagExternalIPs ServiceFlags = 1 << iota
	FlagNodePort
	FlagExternalLocal
	FlagHostPort
	FlagSessionAffinity
	FlagLoadBalancer
	FlagRoutable
	FlagSourceRange
	FlagLocalRedirect
	FlagNAT46x64
	FlagL7LoadBalancer
	FlagLoopback
	FlagInternalLocal
	FlagTwoScopes
	FlagQuarantined // of a backend's slot; with FlagSourceRange in slot 0, that the ranges are denied
	FlagDSR
)

// Type is the frontend's type as Cilium spells it. It has no flag of its own for ClusterIP.
func (f ServiceFlags) Type() string {
	switch {
	case f&FlagExternalIPs != 0:
		return "ExternalIPs"
	case f&FlagNodePort != 0:
		return "NodePort"
	case f&FlagLoadBalancer != 0:
		return "LoadBalancer"
	case f&FlagHostPort != 0:
		return "HostPort"
	case f&FlagLocalRedirect != 0:
		return "LocalRedirect"
	}
	return "ClusterIP"
}

// String lists the flags as `cilium-dbg bpf lb list` does between its brackets, for example
// "ClusterIP, non-routable".
func (f ServiceFlags) String() string {
	names := []string{f.Type()}
	add := func(when bool, name string) {
		if when {
			names = append(names, name)
		}
	}
	deny := f&FlagSourceRange != 0 && f&FlagQuarantined != 0
	add(f&FlagExternalLocal != 0, "Local")
	add(f&FlagInternalLocal != 0, "InternalLocal")
	add(f&FlagTwoScopes != 0, "two-scopes")
	add(f&FlagSessionAffinity != 0, "sessionAffinity")
	add(f&FlagRoutable == 0, "non-routable")
	add(f&FlagSourceRange != 0, "check source-range")
	add(deny, "deny")
	add(f&FlagNAT46x64 != 0, "46x64")
	add(f&FlagL7LoadBalancer != 0, "l7-load-balancer")
	add(f&FlagLoopback != 0 && f.Type() == "HostPort", "loopback")
	add(f&FlagLoopback != 0 && f.Type() != "HostPort", "delegate-if-local")
	add(f&FlagQuarantined != 0 && !deny, "quarantined")
	add(f&FlagDSR != 0, "dsr")
	return strings.Join(names, ", ")
}
