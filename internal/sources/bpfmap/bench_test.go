package bpfmap

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

const ctEntries = 150_000

// ctMap pins a CT map as large as Cilium's default on a small node, with 150,000 connections in it.
func ctMap(b *testing.B, n *node) *ebpf.Map {
	b.Helper()
	m := n.Pin(ctName, ebpf.LRUHash, 14, 56, 221_719)
	changeCT(b, m, 0, ctEntries, 0)
	return m
}

// changeCT writes connections from … from+count with this state of their flags.
func changeCT(b *testing.B, m *ebpf.Map, from, count int, flags uint16) {
	b.Helper()
	keys, values := make([][14]byte, count), make([][56]byte, count)
	for i := range count {
		n := uint32((from + i) % ctEntries)
		copy(keys[i][:], []byte{10, 42, 0, 1, 10, 42, byte(n >> 16), 9, 0x1f, 0x90})
		binary.BigEndian.PutUint16(keys[i][10:], uint16(n))
		keys[i][12], keys[i][13] = 6, 1
		binary.LittleEndian.PutUint32(values[i][32:], 1<<30) // expires in a far future
		binary.LittleEndian.PutUint16(values[i][36:], flags)
	}
	if _, err := m.BatchUpdate(keys, values, nil); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBareBatchRead150k is what reading the map alone costs, with everything to read into at hand.
func BenchmarkBareBatchRead150k(b *testing.B) {
	m := ctMap(b, newNode(b))
	keys, values := make([][14]byte, 2*ctEntries), make([][56]byte, 2*ctEntries)
	for b.Loop() {
		if n := bareRead(b, m, keys, values); n != ctEntries {
			b.Fatalf("read %d entries", n)
		}
	}
}

func bareRead(b *testing.B, m *ebpf.Map, keys [][14]byte, values [][56]byte) int {
	var cursor ebpf.MapBatchCursor
	for n := 0; ; {
		k, err := m.BatchLookup(&cursor, keys[n:n+batch], values[n:n+batch], nil)
		n += k
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return n
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCTPoll150k is a poll of the same map: read, compare and event, with one entry in a hundred changed. Bare
// reads in between tell how many times as long it takes (×bare, of the medians).
func BenchmarkCTPoll150k(b *testing.B) {
	n := newNode(b)
	m := ctMap(b, n)
	changed := 0
	emit := func(_ context.Context, list ...*eventpb.Event) error {
		for _, e := range list {
			for _, d := range e.GetMaps().GetMaps() {
				changed += len(d.Upserts) / 70
			}
		}
		return nil
	}
	l := New(Config{BPFFS: n.Dir}).lane(emit, func(k cilium.Kind) bool { return !together(k) })
	defer l.close()
	for range 3 { // the dump, and both snapshots grown
		pollOnce(b, l)
	}
	keys, values := make([][14]byte, 2*ctEntries), make([][56]byte, 2*ctEntries)
	var polls, bare []time.Duration
	changed = 0
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		changeCT(b, m, i*ctEntries/100, ctEntries/100, uint16(i))
		start := time.Now()
		bareRead(b, m, keys, values)
		bare = append(bare, time.Since(start))
		b.StartTimer()
		start = time.Now()
		pollOnce(b, l)
		polls = append(polls, time.Since(start))
	}
	b.ReportMetric(float64(median(polls))/float64(median(bare)), "×bare")
	if changed != i*ctEntries/100 {
		b.Fatalf("told %d changes, made %d", changed, i*ctEntries/100)
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func pollOnce(b *testing.B, l *lane) {
	for _, g := range l.groups {
		g.due = time.Time{}
	}
	if err := l.round(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkIdlePoll is a poll of the services of a node at rest, with as much room in the maps as Cilium makes.
func BenchmarkIdlePoll(b *testing.B) {
	n := newNode(b)
	m := n.Pin(svcName, ebpf.Hash, 12, 12, 65536)
	for key := range 30 {
		if err := m.Put(keyOf(m, key), make([]byte, 12)); err != nil {
			b.Fatal(err)
		}
	}
	n.Pin(backendName, ebpf.Hash, 4, 12, 65536)
	n.Pin("cilium_lb4_reverse_nat", ebpf.Hash, 2, 6, 65536)
	l := New(Config{BPFFS: n.Dir}).lane(newReplica().emit, together)
	defer l.close()
	pollOnce(b, l)
	pollOnce(b, l)
	for b.Loop() {
		pollOnce(b, l)
	}
}

// BenchmarkPeers150k times what people have today on the same map, beside a poll of it: cilium-dbg (where
// TAPEDECK_CILIUM_DBG names it) and bpftool. Each reads the map from a BPF file system of its own.
func BenchmarkPeers150k(b *testing.B) {
	n := newNode(b)
	ctMap(b, n)
	// cilium-dbg gives up when one of the four is not there.
	for name, keySize := range map[string]uint32{"cilium_ct_any4_global": 14, "cilium_ct6_global": 38, "cilium_ct_any6_global": 38} {
		n.Pin(name, ebpf.LRUHash, keySize, 56, 64)
	}
	l := New(Config{BPFFS: n.Dir}).lane(newReplica().emit, func(k cilium.Kind) bool { return !together(k) })
	defer l.close()
	for range 3 {
		pollOnce(b, l)
	}
	start := time.Now()
	for range 5 {
		pollOnce(b, l)
	}
	ours := time.Since(start) / 5
	ciliumDbg := os.Getenv("TAPEDECK_CILIUM_DBG")
	for _, peer := range []struct {
		name, program string
		args          []string
	}{
		{"bpftool", "bpftool", []string{"-j", "map", "dump", "pinned", n.Path(ctName)}},
		{"cilium-dbg", ciliumDbg, []string{"bpf", "ct", "list", "global", "-o", "json"}},
	} {
		b.Run(peer.name, func(b *testing.B) {
			if _, err := exec.LookPath(peer.program); err != nil {
				b.Skipf("needs %s: %v", peer.name, err)
			}
			for b.Loop() {
				size := runPeer(b, n.Dir, peer.program, peer.args)
				b.ReportMetric(float64(size)/ctEntries, "bytes/entry")
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(ours), "×poll")
		})
	}
}

// onlyMount runs a command in a mount namespace in which $1 is the one BPF file system there is: cilium-dbg reads
// from the first that it finds.
const onlyMount = `dir=$1; shift
awk '$3 == "bpf" { print $2 }' /proc/mounts | while read -r m; do [ "$m" = "$dir" ] || umount -l "$m"; done
exec "$@"`

// runPeer runs a program and returns how many bytes it printed.
func runPeer(b *testing.B, dir, program string, args []string) int {
	b.Helper()
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", onlyMount, "sh", dir, program}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s: %v", program, err)
	}
	if len(out) < ctEntries {
		b.Fatalf("%s printed %q", program, out)
	}
	return len(out)
}

// BenchmarkChangeToEvent is the time from a write to the services map to the event that tells it, by polling alone.
func BenchmarkChangeToEvent(b *testing.B) {
	n := newNode(b)
	m := n.Pin(svcName, ebpf.Hash, 12, 12, 65536)
	told := make(chan struct{}, 16)
	emit := func(ctx context.Context, list ...*eventpb.Event) error {
		told <- struct{}{}
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- New(Config{BPFFS: n.Dir}).Run(ctx, emit, func() {}) }()
	for range 3 { // what is absent, twice, and the dump
		<-told
	}
	var delays []time.Duration
	i := 0
	for b.Loop() {
		i++
		<-time.After(time.Duration(i*7919%61) * time.Millisecond) // at any phase of the polls
		start := time.Now()
		if err := m.Put(keyOf(m, i), make([]byte, 12)); err != nil {
			b.Fatal(err)
		}
		<-told
		delays = append(delays, time.Since(start))
	}
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
	slices.Sort(delays)
	b.ReportMetric(float64(delays[len(delays)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds())/1000, "p99-ms")
}
