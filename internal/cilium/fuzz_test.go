package cilium

import (
	"fmt"
	"testing"
)

// FuzzDecoders holds for every decoder: no bytes make it panic, its error is ErrSize exactly when the sizes are those
// of none of its maps, and what it returns can be printed.
func FuzzDecoders(f *testing.F) {
	for _, sizes := range [][2]int{{12, 12}, {24, 12}, {4, 12}, {4, 24}, {2, 6}, {16, 8}, {32, 20}, {14, 56}, {38, 56}, {20, 48}, {24, 24}, {24, 12}, {12, 24}, {12, 8}, {14, 40}, {38, 56}, {20, 4}, {20, 2}, {8, 24}, {4, 8}, {0, 0}, {3, 57}} {
		f.Add(make([]byte, sizes[0]), make([]byte, sizes[1]))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		hold(t, key, value, DecodeService, [2]int{12, 12}, [2]int{24, 12})
		hold(t, key, value, DecodeBackend, [2]int{4, 12}, [2]int{4, 24})
		hold(t, key, value, DecodeRevNAT, [2]int{2, 6}, [2]int{2, 18})
		hold(t, key, value, DecodeSockRevNAT, [2]int{16, 8}, [2]int{32, 20})
		hold(t, key, value, DecodeCT, [2]int{14, 56}, [2]int{38, 56})
		if c, err := DecodeCTKey(key); err == nil {
			a, b := CTKeyPorts(string(key))
			if x, y := c.Source.Port(), c.Destination.Port(); (a != x || b != y) && (a != y || b != x) {
				t.Fatalf("ports %d %d of %v", a, b, c)
			}
		}
		hold(t, key, value, DecodeEndpoint, [2]int{20, 48})
		hold(t, key, value, DecodeAffinity, [2]int{16, 16}, [2]int{24, 16})
		hold(t, key, value, DecodeAffinityMatch, [2]int{8, 1})
		hold(t, key, value, DecodeSourceRange, [2]int{12, 1}, [2]int{24, 1})
		hold(t, key, value, DecodeNeighbor, [2]int{4, 8}, [2]int{16, 8})
		hold(t, key, value, DecodeIPCache, [2]int{24, 24}, [2]int{24, 12})
		hold(t, key, value, DecodePolicyRule, [2]int{12, 24}, [2]int{12, 12}, [2]int{12, 8})
		hold(t, key, value, DecodeNAT, [2]int{14, 40}, [2]int{38, 56})
		hold(t, key, value, DecodeMaglev, [2]int{2, 4})
		hold(t, key, value, DecodeNode, [2]int{20, 4}, [2]int{20, 2})
		hold(t, key, value, DecodeSkipLB, [2]int{16, 1}, [2]int{32, 1})
		hold(t, key, value, DecodeHealth, [2]int{8, 12}, [2]int{8, 24})
		hold(t, key, value, DecodeActiveConnections, [2]int{4, 8})
	})
}

func hold[T any](t *testing.T, key, value []byte, decode func(key, value []byte) (T, error), sizes ...[2]int) {
	got, err := decode(key, value)
	known := false
	for _, s := range sizes {
		known = known || len(key) == s[0] && len(value) == s[1]
	}
	if known != (err == nil) || (err != nil && err != ErrSize) {
		t.Fatalf("%T of %d and %d bytes: %v", got, len(key), len(value), err)
	}
	_ = fmt.Sprint(got)
}

// FuzzLookup holds that no name is decoded by guess: a layout that is found has the sizes that were asked for, and
// the same name with one more byte has none.
func FuzzLookup(f *testing.F) {
	f.Add("cilium_ct4_global", uint32(14), uint32(56))
	f.Add("cilium_policy_v3_00113", uint32(12), uint32(12))
	f.Add("cilium_policy_v3", uint32(12), uint32(12))
	f.Add("cilium_policy", uint32(4), uint32(4))
	f.Fuzz(func(t *testing.T, name string, key, value uint32) {
		l, ok := Lookup(name, key, value)
		if ok && (l.KeySize != key || l.ValueSize != value || l.Kind == Unknown) {
			t.Fatalf("%q: %+v", name, l)
		}
		if _, guessed := Lookup(name, key+1, value); ok && guessed {
			t.Fatalf("%q is decoded with a key of %d bytes too", name, key+1)
		}
		_, policy := PolicyEndpoint(name)
		if policy != (KindOf(name) == Policy) {
			t.Fatalf("%q: policy map %v, kind %d", name, policy, KindOf(name))
		}
	})
}
