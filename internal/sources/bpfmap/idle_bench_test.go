package bpfmap

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// restingNode pins the maps that Cilium 1.20 makes on a small node, with as much room and about as many entries.
func restingNode(n *node) (ct *ebpf.Map) {
	for _, m := range []struct {
		name             string
		typ              ebpf.MapType
		key, value, room uint32
		entries          int
	}{
		{"cilium_ct_any4_global", ebpf.LRUHash, 14, 56, 110_859, 6},
		{"cilium_lb4_reverse_sk", ebpf.LRUHash, 16, 8, 110_859, 1},
		{"cilium_snat_v4_external", ebpf.LRUHash, 14, 40, 221_719, 0},
		{"cilium_nodeport_neigh4", ebpf.LRUHash, 4, 8, 221_719, 0},
		{"cilium_lb4_affinity", ebpf.LRUHash, 16, 16, 65_536, 0},
		{backendName, ebpf.Hash, 4, 12, 65_536, 5},
		{"cilium_lb4_reverse_nat", ebpf.Hash, 2, 6, 65_536, 6},
		{svcName, ebpf.Hash, 12, 12, 65_536, 27},
		{"cilium_lb_affinity_match", ebpf.Hash, 8, 1, 65_536, 0},
		{"cilium_lxc", ebpf.Hash, 20, 48, 65_535, 8},
		{"cilium_node_map_v2", ebpf.Hash, 20, 4, 16_384, 2},
		{"cilium_skip_lb4", ebpf.Hash, 16, 1, 100, 0},
		{"cilium_lb4_source_range", ebpf.LPMTrie, 12, 1, 65_536, 0},
		{"cilium_ipcache_v2", ebpf.LPMTrie, 24, 24, 512_000, 9},
		{"cilium_policy_v3_00113", ebpf.LPMTrie, 12, 12, 16_384, 10},
		{"cilium_policy_v3_00419", ebpf.LPMTrie, 12, 12, 16_384, 10},
		{"cilium_policy_v3_00574", ebpf.LPMTrie, 12, 12, 16_384, 10},
		{"cilium_policy_v3_00779", ebpf.LPMTrie, 12, 12, 16_384, 10},
		{"cilium_policy_v3_01486", ebpf.LPMTrie, 12, 12, 16_384, 10},
		{"cilium_policy_v3_01664", ebpf.LPMTrie, 12, 12, 16_384, 10},
		{"cilium_policy_v3_02725", ebpf.LPMTrie, 12, 12, 16_384, 10},
	} {
		made := n.Pin(m.name, m.typ, m.key, m.value, m.room)
		for i := range m.entries {
			put(n.TB, made, i, make([]byte, m.value))
		}
	}
	return n.Pin(ctName, ebpf.LRUHash, 14, 56, 221_719)
}

// BenchmarkRest says what the source takes of a core beside the maps of a node at rest, on which six connections a second
// come and go: kubelet's probes, of which nobody tells, or pods' own, of which Hubble does.
func BenchmarkRest(b *testing.B) {
	for _, told := range []bool{false, true} {
		b.Run(fmt.Sprintf("told=%v", told), func(b *testing.B) { rest(b, told) })
	}
}

func rest(b *testing.B, told bool) {
	const span, every = 20 * time.Second, time.Second / 6
	n := newNode(b)
	ct := restingNode(n)
	traffic := sources.NewTrigger()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	c := Config{BPFFS: n.Dir, Traffic: traffic, Followed: func() bool { return true }}
	go func() { done <- New(c).Run(ctx, newReplica().emit, func() { close(ready) }) }()
	<-ready
	tick := time.NewTicker(every)
	for b.Loop() {
		used, began := cpuTime(b), time.Now()
		for i := 0; time.Since(began) < span; i++ {
			put(b, ct, i, make([]byte, 56))
			_ = ct.Delete(keyOf(ct, i-60))
			if told {
				traffic.Fire()
			}
			<-tick.C
		}
		b.ReportMetric(100*float64(cpuTime(b)-used)/float64(time.Since(began)), "%core")
	}
	b.ReportMetric(0, "ns/op")
	tick.Stop()
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}
