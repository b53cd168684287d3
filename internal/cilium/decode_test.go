package cilium

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// bytesOf lays fields out one after the other, without padding: big-endian ones come as network.
func bytesOf(fields ...any) []byte {
	var b bytes.Buffer
	for _, f := range fields {
		if n, ok := f.(network); ok {
			_ = binary.Write(&b, binary.BigEndian, uint16(n))
			continue
		}
		if a, ok := f.(netip.Addr); ok {
			b.Write(a.AsSlice())
			continue
		}
		_ = binary.Write(&b, binary.LittleEndian, f)
	}
	return b.Bytes()
}

type network uint16

var (
	v4  = netip.MustParseAddr("10.43.6.119")
	v6  = netip.MustParseAddr("fd00::1")
	pad = [8]byte{}
)

func serviceKey(addr netip.Addr, port, slot uint16, proto, scope uint8) []byte {
	return bytesOf(addr, network(port), slot, proto, scope, pad[:2])
}

func serviceValue(union uint32, count, revnat uint16, flags ServiceFlags, qcount uint16) []byte {
	return bytesOf(union, count, network(revnat), uint16(flags), qcount)
}

// TestSlot0IsTheHead: a frontend's own entry is not a backend 0.0.0.0:0 (cilium#3905), in whatever order slots come.
func TestSlot0IsTheHead(t *testing.T) {
	for _, addr := range []netip.Addr{v4, v6} {
		for _, slot := range []uint16{2, 0, 3, 1} {
			union := uint32(slot) + 40
			if slot == 0 {
				union = 2<<24 | 10800
			}
			s, err := DecodeService(serviceKey(addr, 80, slot, 6, 0), serviceValue(union, 3, 7, FlagSessionAffinity, 1))
			if err != nil {
				t.Fatal(err)
			}
			want := Service{Frontend: netip.AddrPortFrom(addr, 80), Proto: TCP, Slot: slot,
				Count: 3, QCount: 1, RevNAT: 7, Flags: FlagSessionAffinity, BackendID: union}
			if slot == 0 {
				want.BackendID, want.AffinityTimeout, want.Algorithm = 0, 10800, 2
			}
			if diff := cmp.Diff(want, s, cmp.Comparer(sameAddrPort)); diff != "" || s.Head() != (slot == 0) {
				t.Errorf("slot %d (-want +got):\n%s", slot, diff)
			}
		}
	}
}

func sameAddrPort(a, b netip.AddrPort) bool { return a == b }

func TestL7ServiceHasAProxyPort(t *testing.T) {
	value := bytesOf(network(10128), network(0), uint16(0), network(7), uint16(FlagL7LoadBalancer), uint16(0))
	s, err := DecodeService(serviceKey(v4, 80, 0, 6, 0), value)
	if err != nil || s.L7Port != 10128 || s.AffinityTimeout != 0 {
		t.Errorf("got port %d, affinity %d, %v", s.L7Port, s.AffinityTimeout, err)
	}
}

// TestProtocolIsPartOfTheFrontend: one address and port over no, TCP and UDP protocol are three frontends
// (cilium#9207, #33434, #37164, #40641).
func TestProtocolIsPartOfTheFrontend(t *testing.T) {
	want := []string{"10.43.6.119:53/ANY (0)", "10.43.6.119:53/TCP (0)", "10.43.6.119:53/UDP (0)", "10.43.6.119:53/TCP/i (0)"}
	var got []string
	for _, p := range []struct{ proto, scope uint8 }{{0, 0}, {6, 0}, {17, 0}, {6, 1}} {
		s, err := DecodeService(serviceKey(v4, 53, 0, p.proto, p.scope), serviceValue(0, 0, 1, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	a, _ := DecodeBackend(bytesOf(uint32(9)), bytesOf(v4, network(8080), uint8(0), uint8(0), uint16(0), uint8(0), uint8(0)))
	b, _ := DecodeBackend(bytesOf(uint32(9)), bytesOf(v4, network(8080), uint8(6), uint8(0), uint16(0), uint8(0), uint8(0)))
	if a.ID != b.ID || a.Address != b.Address || a.Proto != Any || b.Proto != TCP {
		t.Errorf("a backend that was rewritten from any protocol to TCP: %+v, %+v", a, b)
	}
}

// TestBackendStates: all four are told apart, and one that is not known keeps its number (cilium#18814, #24136).
func TestBackendStates(t *testing.T) {
	for state, want := range map[uint8]string{0: "active", 1: "terminating", 2: "quarantined", 3: "maintenance", 4: "4", 255: "255"} {
		for _, addr := range []netip.Addr{v4, v6} {
			b, err := DecodeBackend(bytesOf(uint32(70000)), bytesOf(addr, network(8080), uint8(17), state, uint16(300), uint8(5), uint8(0)))
			got := fmt.Sprintln(b.ID, b.Address, b.Proto, b.State, b.Cluster, b.Zone, err)
			if w := fmt.Sprintln(70000, netip.AddrPortFrom(addr, 8080), UDP, want, 300, 5, nil); got != w {
				t.Errorf("got %s, want %s", got, w)
			}
		}
	}
}

// TestServiceFlags has the words of ServiceFlags.String in Cilium's pkg/loadbalancer.
func TestServiceFlags(t *testing.T) {
	for flags, want := range map[ServiceFlags]string{
		0:                            "ClusterIP, non-routable",
		FlagRoutable:                 "ClusterIP",
		FlagNodePort | FlagRoutable:  "NodePort",
		FlagNodePort:                 "NodePort, non-routable",
		FlagHostPort | FlagLoopback:  "HostPort, non-routable, loopback",
		FlagNodePort | FlagLoopback:  "NodePort, non-routable, delegate-if-local",
		FlagLoadBalancer | FlagDSR:   "LoadBalancer, non-routable, dsr",
		FlagExternalIPs:              "ExternalIPs, non-routable",
		FlagLocalRedirect:            "LocalRedirect, non-routable",
		FlagQuarantined:              "ClusterIP, non-routable, quarantined",
		FlagSourceRange:              "ClusterIP, non-routable, check source-range",
		FlagSourceRange | 1<<14:      "ClusterIP, non-routable, check source-range, deny",
		FlagSessionAffinity:          "ClusterIP, sessionAffinity, non-routable",
		FlagNAT46x64 | 1<<10:         "ClusterIP, non-routable, 46x64, l7-load-balancer",
		0x42 | 1<<2 | 1<<12 | 1<<13:  "NodePort, Local, InternalLocal, two-scopes",
		FlagExternalLocal | FlagDSR:  "ClusterIP, Local, non-routable, dsr",
		FlagTwoScopes | FlagHostPort: "HostPort, two-scopes, non-routable",
	} {
		if got := flags.String(); got != want {
			t.Errorf("%#x: got %q, want %q", uint16(flags), got, want)
		}
	}
}

// TestSocketTranslation decodes the entry of a real socket: it asked for 10.43.6.119:80 and talks to 10.42.0.97:8080.
func TestSocketTranslation(t *testing.T) {
	dumps(t, func(t *testing.T, _ string, maps []dumpedMap) {
		got := decodeAll(t, maps, DecodeSockRevNAT, SockRevNAT4)
		want := []SockRevNAT{{Cookie: 7194, Backend: netip.MustParseAddrPort("10.42.0.97:8080"),
			Frontend: netip.MustParseAddrPort("10.43.6.119:80"), RevNAT: 7}}
		if diff := cmp.Diff(want, got, cmp.Comparer(sameAddrPort)); diff != "" {
			t.Error(diff)
		}
	})
	s, err := DecodeSockRevNAT(bytesOf(uint64(9), v6, network(8080), pad[:6]), bytesOf(v6, network(80), network(7)))
	if err != nil || s.Backend != netip.AddrPortFrom(v6, 8080) || s.Frontend != netip.AddrPortFrom(v6, 80) || s.RevNAT != 7 || s.Cookie != 9 {
		t.Errorf("IPv6: %+v, %v", s, err)
	}
}

// TestConnectionDirections: what each role of a key means, from the comment of Cilium's struct ipv4_ct_tuple and from
// CtKey4Global.Dump.
func TestConnectionDirections(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	a6, b6 := netip.MustParseAddr("fd00::a"), netip.MustParseAddr("fd00::b")
	for _, tt := range []struct {
		flags        uint8
		daddr, saddr netip.Addr
		want         string
	}{
		{0, a, b, "TCP OUT 10.0.0.1:40404 -> 10.0.0.2:80"},
		{1, a, b, "TCP IN 10.0.0.1:40404 -> 10.0.0.2:80"},
		{3, a, b, "TCP IN 10.0.0.1:40404 -> 10.0.0.2:80 related"},
		{4, a, b, "TCP SVC 10.0.0.2:80 -> 10.0.0.1:40404"},
		{0, a6, b6, "TCP OUT [fd00::a]:40404 -> [fd00::b]:80"},
		{4, a6, b6, "TCP SVC [fd00::b]:80 -> [fd00::a]:40404"},
	} {
		key := bytesOf(tt.daddr, tt.saddr, network(80), network(40404), uint8(6), tt.flags)
		value := bytesOf(uint64(1)<<40, uint64(77), uint64(3), uint64(180), uint32(9428), uint16(0x8813), network(7),
			network(30780), uint8(2), uint8(3), uint32(40847), uint32(9418), uint32(9419))
		c, err := DecodeCT(key, value)
		if err != nil || c.String() != tt.want {
			t.Errorf("flags %d: got %q, %v; want %q", tt.flags, c, err, tt.want)
		}
		k, err := DecodeCTKey(key)
		if err != nil || k.String() != tt.want {
			t.Errorf("flags %d: key alone %q, %v", tt.flags, k, err)
		}
		backend, port := uint32(0), uint16(0)
		switch tt.flags {
		case 4:
			backend = 77
		case 0:
			port = 30780
		}
		want := CT{Source: c.Source, Destination: c.Destination, Proto: TCP, Direction: c.Direction, Related: c.Related,
			Packets: 3, Bytes: 180, Lifetime: 9428, Flags: 0x8813, RevNAT: 7, NATPort: port, TxFlags: 2, RxFlags: 3,
			SourceIdentity: 40847, LastTx: 9418, LastRx: 9419, BackendID: backend}
		if c != want || !c.Closing() {
			t.Errorf("got %+v, want %+v", c, want)
		}
		if f := c.Flags.String(); f != "RxClosing TxClosing SeenNonSyn Unknown=0x8800" {
			t.Errorf("flags %q", f)
		}
	}
}

func TestAffinity(t *testing.T) {
	value := bytesOf(uint64(9400), uint32(8), uint32(0))
	for _, tt := range []struct {
		key  []byte
		want Affinity
	}{
		{bytesOf(v4, uint32(0), network(7), uint8(0), pad[:5]), Affinity{Client: v4, RevNAT: 7, BackendID: 8, LastUsed: 9400}},
		{bytesOf(uint64(4026531840), network(7), uint8(1), pad[:5]), Affinity{NetNS: 4026531840, RevNAT: 7, BackendID: 8, LastUsed: 9400}},
		{bytesOf(v6, network(7), uint8(0), pad[:5]), Affinity{Client: v6, RevNAT: 7, BackendID: 8, LastUsed: 9400}},
		{bytesOf(uint64(5), pad[:8], network(7), uint8(1), pad[:5]), Affinity{NetNS: 5, RevNAT: 7, BackendID: 8, LastUsed: 9400}},
	} {
		if got, err := DecodeAffinity(tt.key, value); err != nil || got != tt.want {
			t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
		}
	}
	if m, err := DecodeAffinityMatch(bytesOf(uint32(8), network(7), uint16(0)), pad[:1]); err != nil || m != (AffinityMatch{8, 7}) {
		t.Errorf("match: %+v, %v", m, err)
	}
}

func TestPrefixes(t *testing.T) {
	range4, err := DecodeSourceRange(bytesOf(uint32(32+8), network(7), uint16(0), netip.MustParseAddr("10.0.0.0")), pad[:1])
	if err != nil || range4 != (SourceRange{7, netip.MustParsePrefix("10.0.0.0/8")}) {
		t.Errorf("range %+v, %v", range4, err)
	}
	range6, err := DecodeSourceRange(bytesOf(uint32(32+64), network(7), uint16(0), v6), pad[:1])
	if err != nil || range6 != (SourceRange{7, netip.PrefixFrom(v6, 64)}) {
		t.Errorf("range %+v, %v", range6, err)
	}
	if bad, err := DecodeSourceRange(bytesOf(uint32(8), network(7), uint16(0), v4), pad[:1]); err != nil || bad.Prefix.IsValid() {
		t.Errorf("a length of less than the id before the address: %+v, %v", bad, err)
	}
	cached, err := DecodeIPCache(bytesOf(uint32(32+128), uint16(3), uint8(0), uint8(2), v6),
		bytesOf(uint32(40847), v4, pad[:8], uint32(0), uint16(0), uint8(1), uint8(2)))
	want := IPCacheEntry{Prefix: netip.PrefixFrom(v6, 128), Cluster: 3, Identity: 40847, Tunnel: v4, Key: 1, Flags: IPCacheHasTunnel}
	if err != nil || cached != want {
		t.Errorf("got %+v, %v; want %+v", cached, err, want)
	}
	if n, err := DecodeNeighbor(bytesOf(v4), []byte{0x12, 0xb4, 0x72, 0xab, 0x32, 0x74, 0, 0}); err != nil || n.Address != v4 || n.MAC.String() != "12:b4:72:ab:32:74" {
		t.Errorf("neighbour %+v, %v", n, err)
	}
}

func TestClock(t *testing.T) {
	wall := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	at := Instant{Wall: wall, Monotonic: 9400*time.Second + 500*time.Millisecond}
	if got, want := (Clock{}).Time(9428, at), wall.Add(27500*time.Millisecond); !got.Equal(want) {
		t.Errorf("ktime: %s, want %s", got, want)
	}
	if got := (Clock{}).Stamp(at.Monotonic); got != 9400 {
		t.Errorf("ktime now is %d", got)
	}
	// 300 seconds after boot the ticks are 1<<32, whatever the rate.
	for _, hz := range []uint32{100, 250, 300, 1000} {
		c := Clock{Hz: hz}
		if got := c.Stamp(300 * time.Second); got != 1<<24 {
			t.Errorf("%d Hz: stamp at 300 s is %d, want %d", hz, got, 1<<24)
		}
		got := c.Time(1<<24+1, Instant{Wall: wall, Monotonic: 300 * time.Second})
		if want := wall.Add(256 * time.Second / time.Duration(hz)); got.Sub(want).Abs() > time.Microsecond {
			t.Errorf("%d Hz: %s, want %s", hz, got, want)
		}
	}
}

func TestDecodingDoesNotAllocate(t *testing.T) {
	key := bytesOf(v6, v6, network(80), network(40404), uint8(6), uint8(4))
	value := make([]byte, 56)
	sk, sv := serviceKey(v6, 80, 1, 6, 0), serviceValue(1, 0, 7, 0, 0)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = DecodeCT(key, value)
		_, _ = DecodeService(sk, sv)
		_, _ = DecodeBackend(sk, sv)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
