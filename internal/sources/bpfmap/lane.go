package bpfmap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"golang.org/x/sys/unix"
)

// lane polls some of the maps, one after the other.
type lane struct {
	bpffs   string
	wants   func(cilium.Kind) bool
	paces   func(cilium.Kind) pace
	ktime   func() uint32
	emit    events.Emit
	log     *slog.Logger
	trigger sources.Trigger
	next    sources.Trigger // of the lane that is triggered after this one
	traffic sources.Trigger // of new connections
	// followed says that every change of the services is told with the trigger.
	followed func() bool

	scan   schedule
	looked bool   // pins were listed before
	seen   folder // as it was when they were listed
	tables map[string]*table
	groups []*group
}

// run polls until ctx ends.
func (l *lane) run(ctx context.Context) error {
	for {
		timer := time.NewTimer(time.Until(l.due()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-l.trigger:
			l.press(time.Now())
			l.next.Fire()
		case <-l.traffic:
			l.pressConnections(time.Now())
		case <-timer.C:
		}
		timer.Stop()
		if err := l.round(ctx); err != nil {
			return err
		}
	}
}

func (l *lane) due() time.Time {
	due := l.scan.due
	for _, g := range l.groups {
		if g.due.Before(due) {
			due = g.due
		}
	}
	return due
}

func (l *lane) press(now time.Time) {
	l.scan.press(now)
	for _, g := range l.groups {
		g.press(now)
	}
}

func (l *lane) pressConnections(now time.Time) {
	for _, g := range l.groups {
		if isConnection(g.tables[0].kind) {
			g.press(now)
		}
	}
}

// round does all that is due now.
func (l *lane) round(ctx context.Context) error {
	if now := time.Now(); !l.scan.due.After(now) {
		p := &packer{seen: now}
		if err := l.look(p, now); err != nil {
			return err
		}
		l.scan.done(now, time.Since(now), true)
		if err := l.send(ctx, p); err != nil {
			return err
		}
	}
	for _, g := range l.groups {
		start := time.Now()
		if !g.ready(start) {
			continue
		}
		p := &packer{seen: start}
		g.tellLate(p, start)
		if err := g.poll(ctx, p, l.ktime); err != nil {
			return err
		}
		g.done(start, time.Since(start), len(p.events) > 0)
		if g.joint && l.followed != nil && l.followed() {
			g.due = start.Add(max(g.interval(), followedEvery))
		}
		if err := l.send(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) send(ctx context.Context, p *packer) error {
	if len(p.events) == 0 {
		return nil
	}
	return l.emit(ctx, p.events...)
}

// look opens pins that came or were replaced and closes those that went.
func (l *lane) look(p *packer, now time.Time) error {
	seen := folderAt(l.bpffs, now)
	if seen.settled && seen == l.seen {
		return nil
	}
	list, err := pins(l.bpffs, l.wants)
	if err != nil {
		return err
	}
	l.seen = seen
	changed := false
	there := map[string]bool{}
	for _, pin := range list {
		known := l.tables[pin.name]
		if known != nil && known.inode == pin.inode {
			there[pin.name] = true
			continue
		}
		switch opened, err := l.open(p, pin, known, now); {
		case errors.Is(err, fs.ErrNotExist): // gone since it was listed
		case err != nil:
			return openTrouble(pin.name, err)
		default:
			there[pin.name] = true
			changed = changed || opened
		}
	}
	for name, t := range l.tables {
		if !there[name] {
			t.close()
			delete(l.tables, name)
			p.fact(&eventpb.MapDelta{Map: name, Absent: true})
			changed = true
		}
	}
	l.tellMissing(p, there)
	if changed {
		l.regroup(now)
	}
	return nil
}

// open opens a pin that is new, or has another inode than it had. It is false when the map behind it is the same.
func (l *lane) open(p *packer, pin pin, known *table, now time.Time) (bool, error) {
	t, err := openTable(l.bpffs, pin, now)
	if err != nil {
		return false, err
	}
	if known != nil && known.id == t.id {
		known.adopt(t)
		return false, nil
	}
	if known != nil {
		known.close()
		p.gap(known.good, eventpb.GapReason_GAP_REASON_REPLACED,
			fmt.Sprintf("%s: map %d was replaced by map %d", pin.name, known.id, t.id))
		l.log.Warn("map replaced", "map", pin.name, "was", known.id, "is", t.id)
	}
	l.tables[pin.name] = t
	if !t.supported {
		d := t.head()
		d.Unsupported = true
		p.fact(d)
		l.log.Warn("map has an unknown layout", "map", pin.name, "key_size", d.KeySize, "value_size", d.ValueSize)
	}
	return true, nil
}

// tellMissing says once which of the maps that every node may have are not there.
func (l *lane) tellMissing(p *packer, there map[string]bool) {
	if l.looked {
		return
	}
	l.looked = true
	for _, name := range cilium.Names() {
		if !there[name] && l.wants(cilium.KindOf(name)) {
			p.fact(&eventpb.MapDelta{Map: name, Absent: true})
		}
	}
}

// regroup makes groups of the tables, and keeps those that there were. New maps are due at once.
func (l *lane) regroup(now time.Time) {
	var joint *group
	before := map[*table]*group{}
	for _, g := range l.groups {
		if g.joint {
			joint = g
			continue
		}
		before[g.tables[0]] = g
	}
	l.groups = nil
	if joint == nil {
		joint = &group{joint: true, schedule: schedule{pace: l.paces(cilium.Services4)}}
	}
	joint.tables = nil
	for _, name := range slices.Sorted(maps.Keys(l.tables)) {
		t := l.tables[name]
		switch g := before[t]; {
		case !t.supported:
		case together(t.kind):
			joint.tables = append(joint.tables, t)
		case g != nil:
			l.groups = append(l.groups, g)
		default:
			l.groups = append(l.groups, &group{tables: []*table{t}, schedule: schedule{pace: l.paces(t.kind)}})
		}
	}
	if len(joint.tables) > 0 {
		joint.due, joint.force = now, true
		l.groups = append([]*group{joint}, l.groups...)
	}
}

func (l *lane) close() {
	for _, t := range l.tables {
		t.close()
	}
}

func openTrouble(name string, err error) error {
	mend := "see whether `bpftool map show pinned` can read it"
	switch {
	case errors.Is(err, unix.EACCES):
		mend = mendFiles
	case errors.Is(err, unix.EPERM): // of the kernel's BPF call; from Linux 5.19 on it asks for no right to read
		mend = "give the recorder CAP_BPF"
	}
	return &events.Trouble{Thing: name, Cause: fmt.Errorf("open pin: %w", err), Mend: mend}
}
