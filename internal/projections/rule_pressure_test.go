package projections

import (
	"encoding/binary"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// cilium#40820, cilium#8060, cilium#41121: maps that fill.
func TestMapPressure(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		key, value uint32
		says       string // empty: it may fill
	}{
		{"cilium_ct6_global", "LRUHash", 38, 56, "cilium_ct6_global has room for 100 entries and is nearly full, after which it drops old entries for new ones"},
		{"cilium_lb4_backends_v3", "Hash", 4, 12, "nearly full, after which it refuses more"},
		{"cilium_policy_v3_00042", "LPMTrie", 12, 12, "refuses more"},
		{"cilium_lb4_reverse_sk", "LRUHash", 16, 8, ""},
		{"cilium_lb4_affinity", "LRUHash", 16, 16, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := tell(t)
			fill := func(n int) {
				d := &eventpb.MapDelta{Map: c.name, Type: c.kind, KeySize: c.key, ValueSize: c.value, MaxEntries: 100, Complete: true}
				for i := range n {
					key := make([]byte, c.key)
					binary.NativeEndian.PutUint32(key, uint32(i+1))
					d.Upserts = append(append(d.Upserts, key...), make([]byte, c.value)...)
				}
				st.maps(d)
				st.wait(3)
			}
			var want []string
			if c.says != "" {
				want = []string{"map-pressure " + c.name}
			}
			fill(89)
			st.quiet("with 89 of 100")
			fill(90)
			st.wantOpen("with 90 of 100", want...)
			if c.says == "" {
				return
			}
			st.wantText("map-pressure", c.says)
			fill(86)
			st.wantOpen("with 86, which is no end yet", want...)
			fill(84)
			st.quiet("with 84")
			fill(88)
			st.quiet("with 88, on the way up again")
			if all := st.s.Findings(); len(all) != 1 {
				t.Errorf("%d findings, want one that ended", len(all))
			}
		})
	}
}
