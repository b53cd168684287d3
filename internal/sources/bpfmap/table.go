package bpfmap

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// table is one pinned map that is open, and what was last read of it.
type table struct {
	pin
	m         *ebpf.Map
	id        ebpf.MapID
	layout    cilium.Layout
	supported bool

	walker   *walker
	differ   differ
	old, cur *snapshot // old: what readers know; cur: the read in progress
	again    *snapshot // of a map that is read twice: the second read
	dumped   bool      // readers have had a complete dump
	good     time.Time // the last time that the map was read whole
	told     time.Time // until when readers were told that it could not be; zero when it could
}

// openTable opens a pin for reading only. Its error is the kernel's.
func openTable(bpffs string, p pin, now time.Time) (*table, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(bpffs, pinFolder, p.name), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	info, err := m.Info()
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("get map info: %w", err)
	}
	t := &table{pin: p, m: m, good: now}
	t.id, _ = info.ID()
	t.layout, t.supported = cilium.Lookup(p.name, m.KeySize(), m.ValueSize())
	if !t.supported {
		return t, nil
	}
	t.walker = newWalker(m)
	t.differ = differ{mask: newMask(int(m.ValueSize()), t.layout.Volatile), lifetime: t.layout.Lifetime}
	t.old, t.cur = t.snapshot(), t.snapshot()
	if readTwice(p.kind) {
		t.again = t.snapshot()
	}
	return t, nil
}

func (t *table) snapshot() *snapshot {
	return newSnapshot(int(t.m.KeySize()), int(t.m.ValueSize()), t.layout.Lifetime != 0)
}

// adopt takes over the open map of other, the same map under a new pin.
func (t *table) adopt(other *table) {
	_ = t.m.Close()
	t.m, t.inode = other.m, other.inode
	if t.walker != nil {
		t.walker.m = other.m
	}
}

func (t *table) close() { _ = t.m.Close() }

// head is a delta with all but its entries.
func (t *table) head() *eventpb.MapDelta {
	return &eventpb.MapDelta{
		Map:        t.name,
		Type:       t.m.Type().String(),
		KeySize:    t.m.KeySize(),
		ValueSize:  t.m.ValueSize(),
		MaxEntries: t.m.MaxEntries(),
		MapId:      uint32(t.id),
	}
}

// read reads the map into s. It is false when the map could not be read whole, which is then told.
func (t *table) read(ctx context.Context, s *snapshot, p *packer) (whole bool, err error) {
	err = t.walker.read(ctx, s)
	now := time.Now()
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		if !t.told.IsZero() {
			p.lost(t, t.told, now)
			t.told = time.Time{}
		}
		t.good = now
		return true, nil
	case !isIncomplete(err):
		return false, &events.Trouble{Thing: t.name, Cause: err, Mend: "give the recorder CAP_BPF"}
	}
	// Tell it at once, and then now and then, not at every poll.
	if t.told.IsZero() || now.Sub(t.told) >= tellEvery {
		from := t.good
		if !t.told.IsZero() {
			from = t.told
		}
		p.lost(t, from, now)
		t.told = now
	}
	return false, nil
}

// tellEvery is how often a gap that goes on is told.
const tellEvery = 10 * time.Second

func (p *packer) lost(t *table, from, to time.Time) {
	p.seen = to
	p.gap(from, eventpb.GapReason_GAP_REASON_LATE, fmt.Sprintf("%s: %v", t.name, errIncomplete))
}

// publish tells what the read in cur changed, and makes it what readers know.
func (t *table) publish(p *packer, now uint32) {
	complete := !t.dumped
	var c *change
	if complete {
		c = t.differ.all(t.cur)
	} else {
		c = t.differ.compare(t.old, t.cur, now)
	}
	if complete || !c.empty() {
		p.entries(t, c, complete)
	}
	t.dumped = true
	t.old, t.cur = t.cur, t.old
}
