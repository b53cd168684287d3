package cilium

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMapsOfEachVersion has the maps of Cilium v1.16.0, v1.17.0, v1.18.4, v1.19.0 and v1.20.2 as their sources define
// them (bpf/lib/*.h; for maps that the agent makes, pkg/maps and pkg/loadbalancer/maps), sizes being sizeof of the C
// structs.
func TestMapsOfEachVersion(t *testing.T) {
	type defined struct {
		name       string
		key, value uint32
		kind       Kind
	}
	always := []defined{
		{"cilium_lb4_services_v2", 12, 12, Services4}, // lb4_key, lb4_service
		{"cilium_lb6_services_v2", 24, 12, Services6},
		{"cilium_lb4_backends_v3", 4, 12, Backends4}, // __u32, lb4_backend
		{"cilium_lb6_backends_v3", 4, 24, Backends6},
		{"cilium_lb4_reverse_nat", 2, 6, RevNAT4}, // __u16, lb4_reverse_nat (packed)
		{"cilium_lb6_reverse_nat", 2, 18, RevNAT6},
		{"cilium_lb4_reverse_sk", 16, 8, SockRevNAT4}, // ipv4_revnat_tuple, ipv4_revnat_entry
		{"cilium_lb6_reverse_sk", 32, 20, SockRevNAT6},
		{"cilium_ct4_global", 14, 56, CT4TCP}, // ipv4_ct_tuple (packed), ct_entry
		{"cilium_ct_any4_global", 14, 56, CT4Any},
		{"cilium_ct6_global", 38, 56, CT6TCP},
		{"cilium_ct_any6_global", 38, 56, CT6Any},
		{"cilium_lxc", 20, 48, Endpoints},          // endpoint_key (packed), endpoint_info
		{"cilium_lb4_affinity", 16, 16, Affinity4}, // lb4_affinity_key, lb_affinity_val (packed)
		{"cilium_lb6_affinity", 24, 16, Affinity6}, //
		{"cilium_lb_affinity_match", 8, 1, AffinityMatches},
		{"cilium_lb4_source_range", 12, 1, SourceRange4}, // lb4_src_range_key, __u8
		{"cilium_lb6_source_range", 24, 1, SourceRange6},
		{"cilium_nodeport_neigh4", 4, 8, Neighbors4}, // __be32, union macaddr
		{"cilium_nodeport_neigh6", 16, 8, Neighbors6},
		{"cilium_snat_v4_external", 14, 40, SNAT4}, // ipv4_ct_tuple, ipv4_nat_entry
		{"cilium_snat_v6_external", 38, 56, SNAT6},
		{"cilium_lb4_maglev", 2, 4, Maglev4}, // __u16, a map
		{"cilium_lb6_maglev", 2, 4, Maglev6},
		{"cilium_node_map_v2", 20, 4, Nodes},  // node_key, node_value
		{"cilium_skip_lb4", 16, 1, SkipLB4},   // skip_lb4_key, __u8
		{"cilium_skip_lb6", 32, 1, SkipLB6},   //
		{"cilium_lb4_health", 8, 12, Health4}, // __sock_cookie, lb4_health
		{"cilium_lb6_health", 8, 24, Health6}, //
		{"cilium_lb_act", 4, 8, ActiveCounts}, // lb_act_key, lb_act_value
	}
	for version, own := range map[string][]defined{
		"1.16": {{"cilium_policy_00113", 12, 24, Policy}, {"cilium_ipcache", 24, 12, IPCache}, {"cilium_node_map", 20, 2, Nodes}},
		"1.17": {{"cilium_policy_v2_00113", 12, 24, Policy}, {"cilium_ipcache", 24, 12, IPCache}, {"cilium_node_map", 20, 2, Nodes}},
		"1.18": {{"cilium_policy_v2_00113", 12, 8, Policy}, {"cilium_ipcache_v2", 24, 24, IPCache}},
		"1.19": {{"cilium_policy_v2_00113", 12, 12, Policy}, {"cilium_ipcache_v2", 24, 24, IPCache}},
		"1.20": {{"cilium_policy_v3_00113", 12, 12, Policy}, {"cilium_ipcache_v2", 24, 24, IPCache}},
	} {
		for _, m := range append(own, always...) {
			if l, ok := Lookup(m.name, m.key, m.value); !ok || l.Kind != m.kind {
				t.Errorf("%s: %s (%d, %d bytes) is kind %d, readable %v; want kind %d", version, m.name, m.key, m.value, l.Kind, ok, m.kind)
			}
		}
	}
}

// TestServiceOf1_16 has bytes of v1.16's struct lb4_key and lb4_service: the protocol "currently not used (set to 0)",
// two bytes of padding where later versions count quarantined backends, and no algorithm beside the affinity timeout.
func TestServiceOf1_16(t *testing.T) {
	key := []byte{10, 43, 0, 10, 0, 53, 0, 0, 0, 0, 0, 0}
	value := []byte{0x30, 0x2a, 0, 0, 2, 0, 0, 3, 0x10, 0, 0, 0}
	got, err := DecodeService(key, value)
	want := Service{Frontend: netip.MustParseAddrPort("10.43.0.10:53"), Proto: Any, Count: 2, RevNAT: 3,
		Flags: FlagSessionAffinity, AffinityTimeout: 10800}
	if diff := cmp.Diff(want, got, cmp.Comparer(sameAddrPort)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestServiceFrom1_17 has bytes of v1.17's lb4_service: the upper 8 bits of the union are the algorithm, the last two
// bytes count quarantined slots.
func TestServiceFrom1_17(t *testing.T) {
	key := []byte{10, 43, 0, 10, 0, 53, 0, 0, 17, 0, 0, 0}
	value := []byte{0x30, 0x2a, 0, 2, 2, 0, 0, 3, 0x10, 0, 1, 0}
	got, err := DecodeService(key, value)
	want := Service{Frontend: netip.MustParseAddrPort("10.43.0.10:53"), Proto: UDP, Count: 2, QCount: 1, RevNAT: 3,
		Flags: FlagSessionAffinity, AffinityTimeout: 10800, Algorithm: 2}
	if diff := cmp.Diff(want, got, cmp.Comparer(sameAddrPort)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestTranslatedPortOfEachVersion: two bytes of struct ct_entry are an interface's index up to v1.17 ("ifindex", little
// endian, of NodePort entries), nothing in v1.18 ("reserved4") and a port from v1.19 ("nat_port", with "nat_addr" at the
// start, which is 0 before). cilium-dbg of 1.20 prints whatever is there.
func TestTranslatedPortOfEachVersion(t *testing.T) {
	entry := func(natAddr [16]byte, port [2]byte) []byte {
		v := make([]byte, 56)
		copy(v, natAddr[:])
		copy(v[40:], port[:])
		return v
	}
	key := []byte{10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 0x9d, 0xd4, 6, 0}
	none, pod := [16]byte{}, [16]byte{12: 10, 13: 42, 14: 0, 15: 9}
	for _, tt := range []struct {
		what  string
		value []byte
		want  uint16
	}{
		{"1.17: ifindex 12", entry(none, [2]byte{12, 0}), 0},
		{"1.18: nothing", entry(none, [2]byte{}), 0},
		{"1.19: nat_port 40404", entry(pod, [2]byte{0x9d, 0xd4}), 40404},
	} {
		if c, err := DecodeCT(key, tt.value); err != nil || c.Direction != Out || c.NATPort != tt.want {
			t.Errorf("%s: port %d of %s, %v; want %d", tt.what, c.NATPort, c, err, tt.want)
		}
	}
	// Of a service's entry the same bytes hold the backend, and there is no port.
	key[13] = 4
	if c, _ := DecodeCT(key, entry([16]byte{8: 77}, [2]byte{12, 0})); c.BackendID != 77 || c.NATPort != 0 {
		t.Errorf("service: backend %d, port %d", c.BackendID, c.NATPort)
	}
}

// TestEndpointOfEachVersion has bytes of struct endpoint_info: v1.16 has padding where parent_ifindex is from v1.17 on,
// and until v1.20 nothing (the compiler's padding) where rt_info is.
func TestEndpointOfEachVersion(t *testing.T) {
	key := []byte{10, 42, 0, 97, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}
	value := func(rtInfo, parent byte) []byte {
		return []byte{
			12, 0, 0, 0, 0, 0, 113, 0, 0, 0, 0, 0, rtInfo, 0, 0, 0, // ifindex, unused, lxc_id, flags, rt_info
			0x12, 0xb4, 0x72, 0xab, 0x32, 0x74, 0, 0, 0xa6, 1, 2, 3, 4, 5, 0, 0, // mac, node_mac
			0x8f, 0x9f, 0, 0, parent, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // sec_id, parent_ifindex, pad
		}
	}
	want := Endpoint{Address: netip.MustParseAddr("10.42.0.97"), ID: 113, IfIndex: 12, Identity: 40847,
		MAC: MAC{0x12, 0xb4, 0x72, 0xab, 0x32, 0x74}, NodeMAC: MAC{0xa6, 1, 2, 3, 4, 5}}
	for _, tt := range []struct {
		version        string
		rtInfo, parent byte
	}{{"1.16", 0, 0}, {"1.17", 0, 3}, {"1.20", 9, 3}} {
		want.ParentIfIndex = uint32(tt.parent)
		if got, err := DecodeEndpoint(key, value(tt.rtInfo, tt.parent)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", tt.version, got, err, want)
		}
	}
}

// TestPolicyOfEachVersion has one rule as struct policy_entry of each version has it: ingress from identity 40847 to
// 8080/TCP, denied, or sent to proxy port 10128.
func TestPolicyOfEachVersion(t *testing.T) {
	// struct policy_key: prefix length 64, sec_label, egress, protocol, dport in network byte order.
	key := []byte{64, 0, 0, 0, 0x8f, 0x9f, 0, 0, 0, 6, 0x1f, 0x90}
	rule := PolicyRule{Identity: 40847, Proto: TCP, Port: 8080, Bits: 24, ProxyPort: 10128, Deny: true}
	for _, tt := range []struct {
		version string
		value   []byte
		more    PolicyRule
	}{
		// proxy_port, deny + wildcard_protocol + wildcard_dport, auth_type, pad1, pad2, packets, bytes
		{"1.16", bytesOf(network(10128), uint8(1), uint8(2), uint32(0), uint64(5), uint64(600)), PolicyRule{AuthType: 2, Packets: 5, Bytes: 600}},
		// proxy_port, deny + lpm_prefix_length, auth_type + has_explicit_auth_type, proxy_port_priority, pads, packets, bytes
		{"1.17", bytesOf(network(10128), uint8(1|24<<3), uint8(2|1<<7), uint8(7), uint8(0), uint16(0), uint64(5), uint64(600)),
			PolicyRule{AuthType: 2, AuthExplicit: true, Packets: 5, Bytes: 600}},
		{"1.18", bytesOf(network(10128), uint8(1|24<<3), uint8(2|1<<7), uint8(7), uint8(0), uint16(0)), PolicyRule{AuthType: 2, AuthExplicit: true}},
		// …, precedence, cookie
		{"1.19", bytesOf(network(10128), uint8(1|24<<3), uint8(2|1<<7), uint32(1<<31), uint32(9)),
			PolicyRule{AuthType: 2, AuthExplicit: true, Precedence: 1 << 31, Cookie: 9}},
	} {
		want := rule
		want.AuthType, want.AuthExplicit = tt.more.AuthType, tt.more.AuthExplicit
		want.Packets, want.Bytes, want.Precedence, want.Cookie = tt.more.Packets, tt.more.Bytes, tt.more.Precedence, tt.more.Cookie
		got, err := DecodePolicyRule(key, tt.value)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.version, err, diff)
		}
	}
	// The words are those of PolicyKey.String in pkg/maps/policymap.
	for want, key := range map[string][]byte{
		"Ingress: 40847 8080/TCP":                key,
		"Ingress: 1 ANY":                         bytesOf(uint32(40), uint32(1), uint8(0), uint8(0), network(0)),
		"Egress: 2 UDP":                          bytesOf(uint32(48), uint32(2), uint8(1), uint8(17), network(0)),
		"Egress: 2 8192-8447/SCTP":               bytesOf(uint32(56), uint32(2), uint8(1), uint8(132), network(8192)),
		"Ingress: 0 <INVALID PREFIX LENGTH: 25>": bytesOf(uint32(65), uint32(0), uint8(0), uint8(0), network(0)),
	} {
		if p, err := DecodePolicyRule(key, make([]byte, 8)); err != nil || p.String() != want {
			t.Errorf("got %q, %v; want %q", p, err, want)
		}
	}
}

// TestIPCacheUpTo1_17 has bytes of v1.17's struct remote_endpoint_info: sec_identity, tunnel_endpoint, pad, key,
// flag_skip_tunnel.
func TestIPCacheUpTo1_17(t *testing.T) {
	key := []byte{56, 0, 0, 0, 0, 0, 0, 1, 10, 42, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	want := IPCacheEntry{Prefix: netip.MustParsePrefix("10.42.1.0/24"), Identity: 6, Key: 3, Flags: IPCacheSkipTunnel}
	for _, tunnel := range []string{"", "192.168.96.11"} {
		value := []byte{6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1}
		want.Tunnel = netip.Addr{}
		if tunnel != "" {
			copy(value[4:], []byte{192, 168, 96, 11})
			want.Tunnel = netip.MustParseAddr(tunnel)
		}
		if got, err := DecodeIPCache(key, value); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}

// TestNodeOfEachVersion has bytes of struct node_key and, of 1.16 and 1.17's cilium_node_map, a __u16, otherwise struct
// node_value.
func TestNodeOfEachVersion(t *testing.T) {
	key4 := []byte{0, 0, 0, 1, 192, 168, 96, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	key6 := append([]byte{0, 0, 0, 2}, v6.AsSlice()...)
	for _, tt := range []struct {
		key, value []byte
		want       Node
	}{
		{key4, []byte{0xb9, 0x1c}, Node{Address: netip.MustParseAddr("192.168.96.11"), ID: 7353}},
		{key4, []byte{0xb9, 0x1c, 3, 0}, Node{Address: netip.MustParseAddr("192.168.96.11"), ID: 7353, SPI: 3}},
		{key6, []byte{1, 0, 0, 0}, Node{Address: v6, ID: 1}},
	} {
		if got, err := DecodeNode(tt.key, tt.value); err != nil || got != tt.want {
			t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
		}
	}
}
