package cilium

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestServicesAsCiliumPrintsThem compares with `cilium-dbg bpf lb list` of the same dump.
func TestServicesAsCiliumPrintsThem(t *testing.T) {
	dumps(t, func(t *testing.T, dir string, maps []dumpedMap) {
		backends := map[uint32]Backend{}
		for _, b := range decodeAll(t, maps, DecodeBackend, Backends4, Backends6) {
			backends[b.ID] = b
		}
		got := map[string]bool{}
		for _, s := range decodeAll(t, maps, DecodeService, Services4, Services6) {
			right := fmt.Sprintf("0.0.0.0:0 (%d) (0) [%s]", s.RevNAT, s.Flags)
			if !s.Head() {
				b, ok := backends[s.BackendID]
				if !ok {
					t.Errorf("%s: backend %d is not in the backends map", s, s.BackendID)
				}
				right = fmt.Sprintf("%s/%s (%d) (%d)", b.Address, b.Proto, s.RevNAT, s.Slot)
			}
			got[s.String()+" "+right] = true
		}
		want := map[string]bool{}
		for _, line := range printedLines(t, dir+"/lb_list.txt")[1:] {
			want[strings.Join(strings.Fields(line), " ")] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("services (-cilium-dbg +decoded):\n%s", diff)
		}
	})
}

// TestConnectionsAsCiliumPrintsThem compares with `cilium-dbg bpf ct list global`, which walked the maps a moment
// before or after the dump: a few entries may be in one of them only, and times and counters move.
func TestConnectionsAsCiliumPrintsThem(t *testing.T) {
	moving := regexp.MustCompile(` (expires|LastRxReport|LastTxReport|Packets|Bytes)=\d+`)
	dumps(t, func(t *testing.T, dir string, maps []dumpedMap) {
		printed := map[string]string{}
		for _, line := range printedLines(t, dir+"/ct_list.txt") {
			name, rest, _ := strings.Cut(line, " expires")
			printed[name] = strings.TrimSpace(moving.ReplaceAllString(" expires"+rest, ""))
		}
		entries := decodeAll(t, maps, DecodeCT, CT4TCP, CT4Any, CT6TCP, CT6Any)
		both := 0
		for _, c := range entries {
			want, ok := printed[c.String()]
			if !ok {
				continue
			}
			both++
			flags := c.Flags.String()
			if flags != "" {
				flags += " "
			}
			got := fmt.Sprintf("RxFlagsSeen=%#02x TxFlagsSeen=%#02x Flags=%#04x [ %s] RevNAT=%d SourceSecurityID=%d BackendID=%d NatPort=%d",
				c.RxFlags, c.TxFlags, uint16(c.Flags), flags, c.RevNAT, c.SourceIdentity, c.BackendID, c.NATPort)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-cilium-dbg +decoded):\n%s", c, diff)
			}
		}
		if n := max(len(entries), len(printed)); both*10 < n*9 {
			t.Errorf("%d of %d dumped and %d printed entries are the same", both, len(entries), len(printed))
		}
	})
}

// TestMapsAsTheAgentPrintsThem compares every entry of the maps that the agent keeps a copy of with what
// `GET /v1/map` says of it.
func TestMapsAsTheAgentPrintsThem(t *testing.T) {
	type cached struct {
		Path  string
		Cache []struct{ Key, Value string }
	}
	dumps(t, func(t *testing.T, dir string, maps []dumpedMap) {
		want := map[string]string{}
		for _, m := range readJSON[[]cached](t, dir+"/agent_maps.json") {
			for _, c := range m.Cache {
				want[m.Path[strings.LastIndex(m.Path, "/")+1:]+" "+c.Key] = c.Value
			}
		}
		got := map[string]string{}
		for _, s := range decodeAll(t, maps, DecodeService, Services4) {
			got["cilium_lb4_services_v2 "+s.String()] = fmt.Sprintf("%d %d[%d] (%d) [0x%x 0x%x]",
				s.BackendID, s.Count, s.QCount, s.RevNAT, uint8(s.Flags), uint8(s.Flags>>8))
		}
		for _, b := range decodeAll(t, maps, DecodeBackend, Backends4) {
			got[fmt.Sprint("cilium_lb4_backends_v3 ", b.ID)] = fmt.Sprintf("%s://%s", b.Proto, b.Address.Addr())
		}
		for _, r := range decodeAll(t, maps, DecodeRevNAT, RevNAT4) {
			got[fmt.Sprint("cilium_lb4_reverse_nat ", r.ID)] = r.Frontend.String()
		}
		for _, e := range decodeAll(t, maps, DecodeEndpoint, Endpoints) {
			got[fmt.Sprintf("cilium_lxc %s:0", e.Address)] = agentEndpoint(e)
		}
		for _, e := range decodeAll(t, maps, DecodeIPCache, IPCache) {
			tunnel := e.Tunnel
			if !tunnel.IsValid() {
				tunnel = netip.IPv4Unspecified()
			}
			got[fmt.Sprintf("cilium_ipcache_v2 %s", e.Prefix)] = fmt.Sprintf(
				"identity=%d encryptkey=%d tunnelendpoint=%s flags=<none>", e.Identity, e.Key, tunnel)
		}
		// Its copy of this map has ports and ids in network byte order, see TestSocketTranslation.
		for k := range want {
			if strings.HasPrefix(k, "cilium_lb4_reverse_sk ") {
				delete(want, k)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("maps (-agent +decoded):\n%s", diff)
		}
	})
}

func agentEndpoint(e Endpoint) string {
	if e.Host() {
		return "(localhost)"
	}
	return fmt.Sprintf("id=%-5d sec_id=%-5d flags=0x%04X ifindex=%-3d mac=%s nodemac=%s parent_ifindex=%-3d rt_info:0",
		e.ID, e.Identity, e.Flags, e.IfIndex, strings.ToUpper(e.MAC.String()), strings.ToUpper(e.NodeMAC.String()), e.ParentIfIndex)
}

func printedLines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
