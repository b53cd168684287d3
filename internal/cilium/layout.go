package cilium

import (
	"slices"
	"strings"
)

// Kind is what a map holds. A kind with a family in its name holds that family only.
type Kind uint8

const (
	Unknown Kind = iota
	Services4
	Services6
	Backends4
	Backends6
	RevNAT4
	RevNAT6
	SockRevNAT4
	SockRevNAT6
	CT4TCP
	CT4Any
	CT6TCP
	CT6Any
	Endpoints
	Policy
	Affinity4
	Affinity6
	AffinityMatches
	SourceRange4
	SourceRange6
	Neighbors4
	Neighbors6
	IPCache
	SNAT4
	SNAT6
	Maglev4
	Maglev6
	Nodes
	SkipLB4
	SkipLB6
	Health4
	Health6
	ActiveCounts
)

// Range is a run of bytes in a value: from From to before To.
type Range struct{ From, To int }

// Layout says how the entries of a map lie in memory.
type Layout struct {
	Kind      Kind
	KeySize   uint32
	ValueSize uint32
	// Volatile bytes of the value move without the entry having changed: counters, and times of last use.
	Volatile []Range
	// Lifetime is the offset in the value of the 32-bit time at which the entry expires, see Clock; 0 where
	// entries do not expire.
	Lifetime int
}

// row is one layout that this version can read.
type row struct {
	base    string // the map's name without version and endpoint id
	version string // "v2" of "_v2"; "" where names have none
	Layout
}

var (
	ctVolatile   = []Range{{16, 36}, {48, 56}} // packets, bytes, lifetime; the two last reports
	lastUsed     = []Range{{0, 8}}
	policyCounts = []Range{{8, 24}} // packets, bytes; up to Cilium 1.17
)

const ctLifetime = 32

// Every layout of Cilium 1.16 to 1.20 as far as it is recorded. Of a policy map of version v2, the size of the value
// tells Cilium 1.17 (24), 1.18 (8) and 1.19 (12) apart.
var layouts = []row{
	{"cilium_lb4_services", "v2", Layout{Kind: Services4, KeySize: 12, ValueSize: 12}},
	{"cilium_lb6_services", "v2", Layout{Kind: Services6, KeySize: 24, ValueSize: 12}},
	{"cilium_lb4_backends", "v3", Layout{Kind: Backends4, KeySize: 4, ValueSize: 12}},
	{"cilium_lb6_backends", "v3", Layout{Kind: Backends6, KeySize: 4, ValueSize: 24}},
	{"cilium_lb4_reverse_nat", "", Layout{Kind: RevNAT4, KeySize: 2, ValueSize: 6}},
	{"cilium_lb6_reverse_nat", "", Layout{Kind: RevNAT6, KeySize: 2, ValueSize: 18}},
	{"cilium_lb4_reverse_sk", "", Layout{Kind: SockRevNAT4, KeySize: 16, ValueSize: 8}},
	{"cilium_lb6_reverse_sk", "", Layout{Kind: SockRevNAT6, KeySize: 32, ValueSize: 20}},
	{"cilium_ct4_global", "", Layout{CT4TCP, 14, 56, ctVolatile, ctLifetime}},
	{"cilium_ct_any4_global", "", Layout{CT4Any, 14, 56, ctVolatile, ctLifetime}},
	{"cilium_ct6_global", "", Layout{CT6TCP, 38, 56, ctVolatile, ctLifetime}},
	{"cilium_ct_any6_global", "", Layout{CT6Any, 38, 56, ctVolatile, ctLifetime}},
	{"cilium_lxc", "", Layout{Kind: Endpoints, KeySize: 20, ValueSize: 48}},
	{policyBase, "v3", Layout{Kind: Policy, KeySize: 12, ValueSize: 12}},
	{policyBase, "v2", Layout{Kind: Policy, KeySize: 12, ValueSize: 12}},
	{policyBase, "v2", Layout{Kind: Policy, KeySize: 12, ValueSize: 8}},
	{policyBase, "v2", Layout{Kind: Policy, KeySize: 12, ValueSize: 24, Volatile: policyCounts}},
	{policyBase, "", Layout{Kind: Policy, KeySize: 12, ValueSize: 24, Volatile: policyCounts}}, // 1.16
	{"cilium_lb4_affinity", "", Layout{Kind: Affinity4, KeySize: 16, ValueSize: 16, Volatile: lastUsed}},
	{"cilium_lb6_affinity", "", Layout{Kind: Affinity6, KeySize: 24, ValueSize: 16, Volatile: lastUsed}},
	{"cilium_lb_affinity_match", "", Layout{Kind: AffinityMatches, KeySize: 8, ValueSize: 1}},
	{"cilium_lb4_source_range", "", Layout{Kind: SourceRange4, KeySize: 12, ValueSize: 1}},
	{"cilium_lb6_source_range", "", Layout{Kind: SourceRange6, KeySize: 24, ValueSize: 1}},
	{"cilium_nodeport_neigh4", "", Layout{Kind: Neighbors4, KeySize: 4, ValueSize: 8}},
	{"cilium_nodeport_neigh6", "", Layout{Kind: Neighbors6, KeySize: 16, ValueSize: 8}},
	{"cilium_ipcache", "v2", Layout{Kind: IPCache, KeySize: 24, ValueSize: 24}},
	{"cilium_ipcache", "", Layout{Kind: IPCache, KeySize: 24, ValueSize: 12}}, // up to 1.17
	{"cilium_snat_v4_external", "", Layout{Kind: SNAT4, KeySize: 14, ValueSize: 40}},
	{"cilium_snat_v6_external", "", Layout{Kind: SNAT6, KeySize: 38, ValueSize: 56}},
	{"cilium_lb4_maglev", "", Layout{Kind: Maglev4, KeySize: 2, ValueSize: 4}},
	{"cilium_lb6_maglev", "", Layout{Kind: Maglev6, KeySize: 2, ValueSize: 4}},
	{"cilium_node_map", "v2", Layout{Kind: Nodes, KeySize: 20, ValueSize: 4}},
	{"cilium_node_map", "", Layout{Kind: Nodes, KeySize: 20, ValueSize: 2}}, // up to 1.17, beside v2
	{"cilium_skip_lb4", "", Layout{Kind: SkipLB4, KeySize: 16, ValueSize: 1}},
	{"cilium_skip_lb6", "", Layout{Kind: SkipLB6, KeySize: 32, ValueSize: 1}},
	{"cilium_lb4_health", "", Layout{Kind: Health4, KeySize: 8, ValueSize: 12}},
	{"cilium_lb6_health", "", Layout{Kind: Health6, KeySize: 8, ValueSize: 24}},
	{"cilium_lb_act", "", Layout{Kind: ActiveCounts, KeySize: 4, ValueSize: 8}},
}

// Lookup finds the layout of a map by the name of its pin and the sizes of its keys and values. A map whose name is
// known but whose version or sizes are not gives its Kind and false: it is there, and must not be decoded. A map that
// is none of ours gives Unknown and false.
func Lookup(mapName string, keySize, valueSize uint32) (Layout, bool) {
	base, version := splitName(mapName)
	kind := Unknown
	for i := range layouts {
		r := &layouts[i]
		if r.base != base {
			continue
		}
		if r.version == version && r.KeySize == keySize && r.ValueSize == valueSize {
			return r.Layout, true
		}
		kind = r.Kind
	}
	return Layout{Kind: kind}, false
}

// KindOf is the kind that a map's name promises, whatever its version.
func KindOf(mapName string) Kind {
	l, _ := Lookup(mapName, 0, 0)
	return l.Kind
}

// Names lists the maps that this version can read and that are named alike on every node: all but the policy maps.
func Names() []string {
	var names []string
	for _, r := range layouts {
		switch {
		case r.Kind == Policy:
		case r.version == "":
			names = append(names, r.base)
		default:
			names = append(names, r.base+"_"+r.version)
		}
	}
	slices.Sort(names)
	return names
}

// splitName parts a map's name into what it is and its version. An endpoint's id is dropped.
func splitName(name string) (base, version string) {
	if version, _, ok := splitPolicy(name); ok {
		return policyBase, version
	}
	base = name
	if i := strings.LastIndex(name, "_v"); i > 0 && isDigits(name[i+2:]) {
		base, version = name[:i], name[i+1:]
	}
	if base == policyBase { // not of an endpoint
		return "", ""
	}
	return base, version
}

func isDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}
