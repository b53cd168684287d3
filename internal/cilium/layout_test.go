package cilium

import (
	"slices"
	"testing"
)

// TestLookupRefusesWhatItCannotRead: names change their version and keep their size, or keep their name and change
// their size, between versions of Cilium (cilium#41255).
func TestLookupRefusesWhatItCannotRead(t *testing.T) {
	for _, tt := range []struct {
		name       string
		key, value uint32
		kind       Kind
		ok         bool
	}{
		{"cilium_lb4_services_v2", 12, 12, Services4, true},
		{"cilium_lb4_services_v2", 12, 16, Services4, false},
		{"cilium_lb4_services_v3", 12, 12, Services4, false},
		{"cilium_lb6_services_v2", 24, 12, Services6, true},
		{"cilium_lb4_backends_v3", 4, 12, Backends4, true},
		{"cilium_lb4_backends_v3", 4, 8, Backends4, false},
		{"cilium_lb4_backends_v2", 4, 8, Backends4, false},
		{"cilium_lb4_backends", 2, 8, Backends4, false},
		{"cilium_lb6_backends_v3", 4, 24, Backends6, true},
		{"cilium_ct4_global", 14, 56, CT4TCP, true},
		{"cilium_ct_any4_global", 14, 56, CT4Any, true},
		{"cilium_ct6_global", 38, 56, CT6TCP, true},
		{"cilium_ct_any6_global", 38, 56, CT6Any, true},
		{"cilium_ct4_global", 14, 64, CT4TCP, false},
		{"cilium_policy_v3_00113", 12, 12, Policy, true},
		{"cilium_policy_v2_00113", 12, 24, Policy, true},
		{"cilium_policy_v2_00113", 12, 16, Policy, false},
		{"cilium_policy_v3_00113", 12, 24, Policy, false},
		{"cilium_policy_v4_00113", 12, 12, Policy, false},
		{"cilium_policy_00113", 8, 24, Policy, false},
		{"cilium_policystats", 12, 16, Unknown, false},
		{"cilium_call_policy", 4, 4, Unknown, false},
		{"cilium_ipcache_v2", 24, 24, IPCache, true},
		{"cilium_ipcache", 24, 24, IPCache, false},
		{"cilium_ipcache_v2", 24, 12, IPCache, false},
		{"cilium_snat_v4_external", 14, 32, SNAT4, false},
		{"cilium_snat_v4_alloc_retries", 4, 4, Unknown, false},
		{"cilium_per_cluster_snat_v4_external", 4, 4, Unknown, false},
		{"cilium_node_map_v3", 20, 4, Nodes, false},
		{"cilium_metrics", 8, 16, Unknown, false},
		{"", 0, 0, Unknown, false},
		{"_v2", 0, 0, Unknown, false},
	} {
		l, ok := Lookup(tt.name, tt.key, tt.value)
		if l.Kind != tt.kind || ok != tt.ok {
			t.Errorf("Lookup(%q, %d, %d) = kind %d, %v; want %d, %v", tt.name, tt.key, tt.value, l.Kind, ok, tt.kind, tt.ok)
		}
		if KindOf(tt.name) != tt.kind {
			t.Errorf("KindOf(%q) = %d, want %d", tt.name, KindOf(tt.name), tt.kind)
		}
	}
}

// TestDumpedMapsAreKnown holds the table against a node's own maps.
func TestDumpedMapsAreKnown(t *testing.T) {
	notOurs := []string{"cilium_devices"}
	dumps(t, func(t *testing.T, _ string, maps []dumpedMap) {
		for _, m := range maps {
			if _, ok := Lookup(m.Name, m.KeySize, m.ValueSize); !ok && !slices.Contains(notOurs, m.Name) {
				t.Errorf("%s with keys of %d and values of %d bytes is not known", m.Name, m.KeySize, m.ValueSize)
			}
		}
	})
}

func TestVolatileBytesLieInTheValue(t *testing.T) {
	for _, r := range layouts {
		for _, v := range r.Volatile {
			if v.From < 0 || v.From >= v.To || v.To > int(r.ValueSize) {
				t.Errorf("%s_%s: volatile bytes %v of a value of %d", r.base, r.version, v, r.ValueSize)
			}
		}
		if r.Lifetime != 0 && r.Lifetime+4 > int(r.ValueSize) {
			t.Errorf("%s: lifetime at %d of a value of %d bytes", r.base, r.Lifetime, r.ValueSize)
		}
	}
}

func TestNamesAreReadable(t *testing.T) {
	for _, name := range Names() {
		if KindOf(name) == Unknown {
			t.Errorf("%s is listed and not known", name)
		}
	}
}

func TestPolicyEndpoint(t *testing.T) {
	for _, tt := range []struct {
		name string
		id   uint16
		ok   bool
	}{
		{"cilium_policy_v3_00113", 113, true},
		{"cilium_policy_v2_65535", 65535, true},
		{"cilium_policy_00007", 7, true},
		{"cilium_policy_v3_65536", 0, false},
		{"cilium_policy_v3_+0113", 0, false},
		{"cilium_policy_v3_", 0, false},
		{"cilium_policy_vx_00113", 0, false},
		{"cilium_policy_v3_00113_1", 0, false},
		{"cilium_policy_reserved_1", 0, false},
		{"cilium_policystats", 0, false},
	} {
		if id, ok := PolicyEndpoint(tt.name); id != tt.id || ok != tt.ok {
			t.Errorf("PolicyEndpoint(%q) = %d, %v; want %d, %v", tt.name, id, ok, tt.id, tt.ok)
		}
	}
}
