package host

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// neighbour adds one to a device.
func neighbour(t *testing.T, dev netlink.Link, ip string, state, flags, ext int) *netlink.Neigh {
	t.Helper()
	n := &netlink.Neigh{LinkIndex: dev.Attrs().Index, IP: net.ParseIP(ip), State: state, Flags: flags, FlagsExt: ext}
	if state != netlink.NUD_NONE && state != netlink.NUD_FAILED {
		n.HardwareAddr = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	}
	if err := netlink.NeighSet(n); err != nil {
		t.Errorf("add %s: %v", ip, err)
	}
	return n
}

// ipNeigh is what ip prints of a device's neighbours and proxies, one line for each: address, mac, flags, state.
func ipNeigh(t *testing.T, dev string) (lines []string) {
	t.Helper()
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Log("ip is not installed: not compared")
		return nil
	}
	for _, args := range [][]string{{"neigh", "show", "dev", dev, "nud", "all"}, {"neigh", "show", "proxy", "dev", dev},
		{"-6", "neigh", "show", "proxy", "dev", dev}} {
		text, err := exec.Command(ip, args...).Output()
		if err != nil {
			t.Errorf("ip %v: %v", args, err)
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			mac := ""
			if i := slices.Index(words, "lladdr"); i >= 0 {
				mac = words[i+1]
				words = slices.Delete(words, i, i+2)
			}
			if strings.HasPrefix(words[0], "ff02:") || strings.HasPrefix(words[0], "224.") {
				continue
			}
			if !slices.Contains(words, "proxy") {
				words[len(words)-1] = strings.NewReplacer("REACHABLE", "VALID", "STALE", "VALID", "DELAY", "VALID", "PROBE", "VALID").Replace(words[len(words)-1])
			} else {
				words = append(words, "NONE")
			}
			slices.Sort(words[1:])
			lines = append(lines, strings.Join(append(words, mac), " "))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func TestNeighboursAsIPPrintsThem(t *testing.T) {
	inNetns(t, func() {
		up(t, "lo")
		dev := add(t, veth("eth0"))
		up(t, "eth0-peer")
		up(t, "eth0")
		neighbour(t, dev, "10.0.0.9", netlink.NUD_PERMANENT, 0, 0)
		neighbour(t, dev, "10.0.0.38", netlink.NUD_REACHABLE, netlink.NTF_EXT_LEARNED, 0)
		neighbour(t, dev, "fd00::1", netlink.NUD_STALE, netlink.NTF_ROUTER, 0)
		neighbour(t, dev, "fd00::2", netlink.NUD_NOARP, 0, 0)
		neighbour(t, dev, "10.0.0.40", netlink.NUD_FAILED, 0, 0)
		neighbour(t, dev, "10.0.0.50", netlink.NUD_NONE, netlink.NTF_PROXY, 0)
		neighbour(t, dev, "224.0.0.5", netlink.NUD_PERMANENT, 0, 0)

		links := &links{}
		s := &eventpb.HostState{}
		for _, l := range []looker{links, &neighbours{links: links}} {
			if err := l.look(t.Context(), s); err != nil {
				t.Error(err)
				return
			}
		}
		var got, byIP []string
		for _, n := range s.Neighbours.GetNeighbours() {
			got = append(got, fmt.Sprint(n.Device, " ", n.Address, " ", n.Mac, " ", n.State, " ", n.Flags))
			words := append(slices.Clone(n.Flags), n.State)
			slices.Sort(words)
			byIP = append(byIP, strings.Join(append(append([]string{n.Address}, words...), n.Mac), " "))
		}
		want := []string{
			"eth0 10.0.0.9 02:00:00:00:00:01 PERMANENT []",
			"eth0 10.0.0.38 02:00:00:00:00:01 VALID [extern_learn]",
			"eth0 10.0.0.40  FAILED []",
			"eth0 10.0.0.50  NONE [proxy]",
			"eth0 fd00::1 02:00:00:00:00:01 VALID [router]",
			"eth0 fd00::2 02:00:00:00:00:01 NOARP []",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		slices.Sort(byIP)
		if lines := ipNeigh(t, "eth0"); lines != nil {
			if diff := cmp.Diff(lines, byIP); diff != "" {
				t.Errorf("ip neigh says: %s", diff)
			}
		}
	})
}

// The agent has the kernel keep its next hops resolved, which older ip does not print.
func TestManagedNeighbourIsTold(t *testing.T) {
	inNetns(t, func() {
		up(t, "lo")
		dev := add(t, veth("eth0"))
		up(t, "eth0-peer")
		up(t, "eth0")
		n := &netlink.Neigh{LinkIndex: dev.Attrs().Index, IP: net.ParseIP("10.0.0.9"), Flags: netlink.NTF_EXT_LEARNED, FlagsExt: netlink.NTF_EXT_MANAGED}
		if err := netlink.NeighSet(n); err != nil {
			t.Logf("a kernel older than 5.16: %v", err)
			return
		}
		found, err := (&neighbours{links: &links{}}).find()
		if err != nil {
			t.Error(err)
			return
		}
		if got := found.GetNeighbours(); len(got) != 1 || !slices.Equal(got[0].Flags, []string{"extern_learn", "managed"}) {
			t.Errorf("found %v", got)
		}
	})
}

func TestNeighbourComesGoesAndCyclesInSilence(t *testing.T) {
	record(t, Config{}, func(r *tape) {
		dev := add(t, veth("eth0"))
		up(t, "eth0-peer")
		up(t, "eth0")
		has := func(ip string) func(*eventpb.HostState) bool {
			return func(s *eventpb.HostState) bool {
				return slices.ContainsFunc(s.GetNeighbours().GetNeighbours(), func(n *eventpb.Neighbour) bool { return n.Address == ip && n.Device == "eth0" })
			}
		}
		first := neighbour(t, dev, "10.0.0.9", netlink.NUD_REACHABLE, 0, 0)
		r.wait(t, "neighbour", has("10.0.0.9"))
		r.mu.Lock()
		r.events = nil
		r.mu.Unlock()
		for _, state := range []int{netlink.NUD_STALE, netlink.NUD_REACHABLE, netlink.NUD_STALE} {
			neighbour(t, dev, "10.0.0.9", state, 0, 0)
		}
		neighbour(t, dev, "10.0.0.10", netlink.NUD_PERMANENT, 0, 0)
		r.wait(t, "the next one", has("10.0.0.10"))
		r.mu.Lock()
		told := 0
		for _, e := range r.events {
			if e.GetHost().GetNeighbours() != nil {
				told++
			}
		}
		r.mu.Unlock()
		if told != 1 {
			t.Errorf("%d events of neighbours, want that of the new one alone", told)
		}
		if err := netlink.NeighDel(first); err != nil {
			t.Error(err)
		}
		r.wait(t, "its end", func(s *eventpb.HostState) bool { return s.Neighbours != nil && !has("10.0.0.9")(s) })
	})
}

func TestTooManyNeighboursAreCounted(t *testing.T) {
	inNetns(t, func() {
		dev := add(t, veth("eth0"))
		up(t, "eth0-peer")
		up(t, "eth0")
		for i := range 20 {
			for j := range 210 {
				neighbour(t, dev, fmt.Sprintf("10.0.%d.%d", i, j+1), netlink.NUD_PERMANENT, 0, 0)
			}
		}
		found, err := (&neighbours{links: &links{}}).find()
		if err != nil {
			t.Error(err)
			return
		}
		list := found.GetNeighbours()
		if len(list) != maxNeighbours || found.Omitted != 20*210-maxNeighbours || list[0].Address != "10.0.0.1" || list[maxNeighbours-1].Address != "10.0.19.106" {
			t.Errorf("%d and %d left out, up to %v", len(list), found.Omitted, list[len(list)-1])
		}
	})
}

func TestWhatIsNoNeighbour(t *testing.T) {
	lo := &netlink.LinkAttrs{RawFlags: unix.IFF_LOOPBACK}
	for name, c := range map[string]struct {
		neigh  netlink.Neigh
		device *netlink.LinkAttrs
	}{
		"broadcast":    {netlink.Neigh{Family: unix.AF_INET, IP: net.IPv4(10, 0, 0, 255).To4(), State: netlink.NUD_NOARP, Type: unix.RTN_BROADCAST}, nil},
		"own address":  {netlink.Neigh{Family: unix.AF_INET, IP: net.IPv4(10, 0, 0, 1).To4(), State: netlink.NUD_NOARP}, lo},
		"bridge entry": {netlink.Neigh{Family: unix.AF_BRIDGE, IP: net.IPv4(10, 0, 0, 1).To4()}, nil},
		"no address":   {netlink.Neigh{Family: unix.AF_INET}, nil},
	} {
		if isNeighbour(c.neigh, c.device) {
			t.Errorf("%s is listed", name)
		}
	}
}
