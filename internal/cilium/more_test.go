package cilium

import (
	"net/netip"
	"testing"
)

// TestNAT has the words of NatEntry4.Dump and TupleKey4Global.Dump (and their IPv6 twins) in Cilium's pkg/maps/nat and
// pkg/tuple, of entries as snat_v4_new_mapping in bpf/lib/nat.h makes them: a pod's connection and its replies.
func TestNAT(t *testing.T) {
	pod, node, server := netip.MustParseAddr("10.42.0.5"), netip.MustParseAddr("192.168.96.10"), netip.MustParseAddr("192.0.2.1")
	pod6, node6, server6 := netip.MustParseAddr("fd00::5"), netip.MustParseAddr("fd00::10"), netip.MustParseAddr("2001:db8::1")
	common := bytesOf(uint64(9400), uint64(1), uint64(0), uint64(0)) // created, needs_ct, pad1, pad2
	value := func(to netip.Addr, port uint16, pad int) []byte {
		return append(append(append([]byte(nil), common...), bytesOf(to, network(port))...), make([]byte, pad)...)
	}
	for _, tt := range []struct {
		key, value []byte
		want       string
	}{
		{bytesOf(server, pod, network(443), network(40404), uint8(6), uint8(0)), value(node, 50000, 2),
			"TCP OUT 10.42.0.5:40404 -> 192.0.2.1:443 XLATE_SRC 192.168.96.10:50000"},
		{bytesOf(node, server, network(50000), network(443), uint8(6), uint8(1)), value(pod, 40404, 2),
			"TCP IN 192.0.2.1:443 -> 192.168.96.10:50000 XLATE_DST 10.42.0.5:40404"},
		{bytesOf(server6, pod6, network(53), network(40404), uint8(17), uint8(0)), value(node6, 50000, 6),
			"UDP OUT [fd00::5]:40404 -> [2001:db8::1]:53 XLATE_SRC [fd00::10]:50000"},
		{bytesOf(node, server, network(50000), network(443), uint8(132), uint8(1|2|4)), value(pod, 40404, 2),
			"SCTP IN 192.0.2.1:443 -> 192.168.96.10:50000 related service XLATE_DST 10.42.0.5:40404"},
	} {
		n, err := DecodeNAT(tt.key, tt.value)
		if err != nil || n.String() != tt.want || n.Created != 9400 || !n.NeedsCT {
			t.Errorf("got %q (%+v), %v; want %q", n, n, err, tt.want)
		}
	}
}

func TestMaglev(t *testing.T) {
	if m, err := DecodeMaglev([]byte{0, 7}, []byte{0x15, 1, 0, 0}); err != nil || m != (Maglev{RevNAT: 7, MapID: 277}) {
		t.Errorf("got %+v, %v", m, err)
	}
}

// TestSkipLB has struct skip_lb4_key and skip_lb6_key; the latter has padding before its port.
func TestSkipLB(t *testing.T) {
	for _, addr := range []netip.Addr{v4, v6} {
		key := bytesOf(uint64(4026531840), addr)
		if addr == v6 {
			key = append(key, pad[:4]...)
		}
		key = append(append(key, 0, 80), 0, 0)
		got, err := DecodeSkipLB(key, pad[:1])
		if want := (SkipLB{4026531840, netip.AddrPortFrom(addr, 80)}); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}

// TestHealth: a health map's value is a backend, under a socket's cookie.
func TestHealth(t *testing.T) {
	for _, addr := range []netip.Addr{v4, v6} {
		got, err := DecodeHealth(bytesOf(uint64(7194)), bytesOf(addr, network(8080), uint8(6), uint8(2), uint16(0), uint8(0), uint8(0)))
		want := Health{Cookie: 7194, Peer: Backend{Address: netip.AddrPortFrom(addr, 8080), Proto: TCP, State: BackendQuarantined}}
		if err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}

// TestActiveConnections has the words of ActiveConnectionTrackerValue.String in pkg/maps/act.
func TestActiveConnections(t *testing.T) {
	a, err := DecodeActiveConnections([]byte{0, 7, 2, 0}, bytesOf(uint32(300), uint32(298)))
	if err != nil || a.RevNAT != 7 || a.Zone != 2 || a.String() != "+300 -298" {
		t.Errorf("got %+v, %q, %v", a, a, err)
	}
}

// TestDumpedNodes: the real node's own addresses, under one number (`cilium-dbg bpf nodeid list`).
func TestDumpedNodes(t *testing.T) {
	dumps(t, func(t *testing.T, _ string, maps []dumpedMap) {
		nodes := decodeAll(t, maps, DecodeNode, Nodes)
		if len(nodes) != 2 || nodes[0].ID != nodes[1].ID || nodes[0].Address.String() != "192.168.96.10" || nodes[1].Address.String() != "10.42.0.1" {
			t.Errorf("nodes %+v", nodes)
		}
	})
}

// TestWildcardService: port 0 of no protocol stands for all that no other frontend of the address takes, for which
// struct lb4_key has IPPROTO_ANY; SCTP is told from it.
func TestWildcardService(t *testing.T) {
	for want, key := range map[string][]byte{
		"10.43.6.119:0/ANY (0)":   serviceKey(v4, 0, 0, 0, 0),
		"10.43.6.119:0/ANY/i (0)": serviceKey(v4, 0, 0, 0, 1),
		"10.43.6.119:80/SCTP (2)": serviceKey(v4, 80, 2, 132, 0),
		"[fd00::1]:0/ANY (0)":     serviceKey(v6, 0, 0, 0, 0),
	} {
		s, err := DecodeService(key, serviceValue(0, 0, 1, 0, 0))
		if err != nil || s.String() != want || s.Wildcard() != (s.Frontend.Port() == 0) {
			t.Errorf("got %q (wildcard %v), %v; want %q", s, s.Wildcard(), err, want)
		}
	}
}
