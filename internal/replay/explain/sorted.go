package explain

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/projections"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func sortedAddresses(m map[netip.AddrPort]bool) []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(m), netip.AddrPort.Compare)
}

func addressOf(text string) (netip.AddrPort, bool) { return projections.AddressOf(text) }

// byAddress is the order of addresses by value, not by spelling.
func byAddress(a, b string) int {
	x, _ := netip.ParseAddr(a)
	y, _ := netip.ParseAddr(b)
	return cmp.Or(x.Compare(y), cmp.Compare(a, b))
}
