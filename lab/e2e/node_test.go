package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNode holds node.json against bpftool, iptables-save, iproute2 and cilium-dbg.
func TestNode(t *testing.T) {
	l := start(t)
	l.record()
	type rules struct {
		Command     string
		CiliumLines int `json:"cilium_lines"`
		KubeLines   int `json:"other_kube_lines"`
	}
	var node struct {
		Replacement struct {
			Mode, Forwarding string
			BackendSelection string `json:"backend_selection"`
		} `json:"kube_proxy_replacement"`
		SocketLB struct {
			Coverage string
			Programs []struct {
				Attach string
				ID     int
			}
		} `json:"socket_lb"`
		IPTables   []rules
		Neighbours struct {
			Kernel []struct{ Address, Device string }
		}
	}
	same := func(want, got any) error {
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("tools (-), node.json (+):\n%s", diff)
		}
		return nil
	}
	check := func(what string, differ func() error) {
		l.eventually(settle, what, func() error {
			if err := l.read("node.json", &node); err != nil {
				return err
			}
			return differ()
		})
	}
	check("programs at the cgroup", func() error {
		var shown []struct {
			ID     int
			Attach string `json:"attach_type"`
		}
		l.json(&shown, "bpftool", "-j", "cgroup", "show", "/run/cilium/cgroupv2")
		var want, got []string
		for _, p := range shown {
			want = append(want, fmt.Sprint(p.Attach, " ", p.ID))
		}
		for _, p := range node.SocketLB.Programs {
			got = append(got, fmt.Sprint(p.Attach, " ", p.ID))
		}
		slices.Sort(want)
		slices.Sort(got)
		return same(want, got)
	})
	check("rules", func() error {
		for _, r := range node.IPTables {
			out := l.run("lab/exec", r.Command)
			if want := (rules{r.Command, lines(out, "CILIUM"), lines(out, "KUBE-") - lines(out, "KUBE-SVC")}); want != r {
				return same(want, r)
			}
		}
		return nil
	})
	check("neighbours", func() error {
		var shown []struct{ Dst, Dev string }
		l.json(&shown, "ip", "-j", "neigh", "show", "dev", "eth0", "nud", "all")
		var want, got []string
		for _, n := range shown {
			if !strings.HasPrefix(n.Dst, "ff") && !strings.HasPrefix(n.Dst, "224.") {
				want = append(want, n.Dst)
			}
		}
		for _, n := range node.Neighbours.Kernel {
			if n.Device == "eth0" {
				got = append(got, n.Address)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		return same(want, got)
	})
	check("the agent's words", func() error {
		out := l.run("lab/exec", "cilium-dbg", "status", "--verbose")
		for name, got := range map[string]string{
			"Status": node.Replacement.Mode, "Mode": node.Replacement.Forwarding, "Backend Selection": node.Replacement.BackendSelection, "Socket LB Coverage": node.SocketLB.Coverage,
		} {
			_, details, _ := strings.Cut(out, "KubeProxyReplacement Details:")
			_, rest, _ := strings.Cut(details, "\n  "+name+":")
			line, _, _ := strings.Cut(rest, "\n")
			if words := strings.Fields(line); len(words) == 0 || words[0] != got {
				return fmt.Errorf("cilium-dbg says %s: %s, node.json %q", name, line, got)
			}
		}
		return nil
	})
	l.stop(syscall.SIGTERM)
}

// json reads what a command of the node printed.
func (l *lab) json(v any, args ...string) {
	l.Helper()
	if err := json.Unmarshal([]byte(l.run("lab/exec", args...)), v); err != nil {
		l.Fatalf("%q: %v", args, err)
	}
}

func lines(text, part string) (n int) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}
