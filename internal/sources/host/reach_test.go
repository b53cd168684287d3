package host

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/testing/protocmp"
)

// caller loads a program that calls the one in a slot of an array.
func caller(t *testing.T, name string, array *ebpf.Map, slot int32) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMapPtr(asm.R2, array.FD()),
		asm.Mov.Imm(asm.R3, slot),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}})
	if err != nil {
		t.Errorf("load %s: %v", name, err)
		runtime.Goexit()
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func newMap(t *testing.T, name string, kind ebpf.MapType, size uint32) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: kind, KeySize: 4, ValueSize: 4, MaxEntries: size})
	if err != nil {
		t.Errorf("make %s: %v", name, err)
		runtime.Goexit()
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func put(t *testing.T, array *ebpf.Map, slot uint32, p *ebpf.Program) {
	t.Helper()
	if err := array.Put(slot, uint32(p.FD())); err != nil {
		t.Errorf("fill slot %d: %v", slot, err)
	}
}

func programID(t *testing.T, p *ebpf.Program) uint32 {
	t.Helper()
	info, err := p.Info()
	if err != nil {
		t.Error(err)
		return 0
	}
	id, _ := info.ID()
	return uint32(id)
}

func mapID(t *testing.T, m *ebpf.Map) uint32 {
	t.Helper()
	info, err := m.Info()
	if err != nil {
		t.Error(err)
		return 0
	}
	id, _ := info.ID()
	return uint32(id)
}

// reached is what looks say of tail calls, in the end.
func reached(t *testing.T, a *attachments) *eventpb.Attachments {
	t.Helper()
	out := &eventpb.HostState{}
	if err := a.look(t.Context(), out); err != nil {
		t.Error(err)
	}
	for a.reach.every() == 0 {
		if err := a.reach.look(t.Context(), out); err != nil {
			t.Error(err)
			break
		}
	}
	return out.Attachments
}

// An attached program calls one in an array as big as the one of policy programs, which calls another.
func TestProgramsAndMapsBehindTailCalls(t *testing.T) {
	inNetns(t, func() {
		dev := add(t, veth("lxc1"))
		policy, calls := newMap(t, "call_policy", ebpf.ProgramArray, 65536), newMap(t, "calls", ebpf.ProgramArray, 50)
		first, second := caller(t, "cil_from_contai", policy, 60000), caller(t, "tail_policy", calls, 3)
		last := caller(t, "tail_handle", calls, 49) // and calls itself
		put(t, policy, 60000, second)
		put(t, calls, 3, last)
		put(t, calls, 49, last)
		attach := func(p *ebpf.Program, at ebpf.AttachType) {
			l, err := link.AttachTCX(link.TCXOptions{Interface: dev.Attrs().Index, Program: p, Attach: at})
			if err != nil {
				t.Errorf("attach: %v", err)
				runtime.Goexit()
			}
			t.Cleanup(func() { l.Close() })
		}
		attach(first, ebpf.AttachTCXIngress)

		links := &links{}
		if err := links.look(t.Context(), &eventpb.HostState{}); err != nil {
			t.Error(err)
		}
		a := newAttachments(New(Config{}).cfg, links, &filters{})
		policyID, callsID := mapID(t, policy), mapID(t, calls)
		want := &eventpb.Attachments{
			Reached: []*eventpb.ReachedProgram{
				{ProgramId: programID(t, second), Program: "tail_policy", MapIds: []uint32{callsID}},
				{ProgramId: programID(t, last), Program: "tail_handle", MapIds: []uint32{callsID}},
			},
			UsedMaps: []*eventpb.UsedMap{
				{Id: policyID, Name: "call_policy", MaxEntries: 65536},
				{Id: callsID, Name: "calls", MaxEntries: 50},
			},
		}
		// Programs at cgroups are the machine's, in any network.
		before := map[uint32]bool{}
		got := reached(t, a)
		for _, at := range got.GetAttachments() {
			for _, m := range at.MapIds {
				before[m] = at.Ifindex == 0
			}
		}
		used := slices.DeleteFunc(slices.Clone(got.GetUsedMaps()), func(m *eventpb.UsedMap) bool { return before[m.Id] })
		if diff := cmp.Diff(want, &eventpb.Attachments{Reached: got.GetReached(), UsedMaps: used}, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}

		// Nothing is walked again while the same programs are attached.
		if got := reached(t, a); got != nil {
			t.Errorf("told again: %v", got)
		}

		// Another program that uses the array is a reason to read it again.
		put(t, policy, 7, caller(t, "tail_other", newMap(t, "other", ebpf.ProgramArray, 1), 0))
		if err := policy.Delete(uint32(60000)); err != nil {
			t.Error(err)
		}
		attach(caller(t, "cil_to_containe", policy, 7), ebpf.AttachTCXEgress)
		names := ""
		got = reached(t, a)
		for _, p := range got.GetReached() {
			names += p.Program + " "
		}
		for _, m := range got.GetUsedMaps() {
			if !before[m.Id] {
				names += m.Name + " "
			}
		}
		if names != "tail_other call_policy other " {
			t.Errorf("after the change: %s", names)
		}
	})
}

// A walk that has no time left still gets on.
func TestWalkOfManySlicesEnds(t *testing.T) {
	inNetns(t, func() {
		array := newMap(t, "calls", ebpf.ProgramArray, 1000)
		for slot := range uint32(20) {
			put(t, array, 50*slot, caller(t, fmt.Sprint("tail_", slot), array, 0))
		}
		a := newAttachments(New(Config{}).cfg, &links{}, &filters{})
		a.last = &eventpb.Attachments{Attachments: []*eventpb.Attachment{{ProgramId: programID(t, caller(t, "first", array, 0))}}}
		looks := 0
		for ; looks < 1000; looks++ {
			w, err := a.reach.walk(time.Now())
			if err == nil {
				if len(w.seen) != 21 || looks < 16 {
					t.Errorf("%d programs after %d slices", len(w.seen), looks)
				}
				return
			}
		}
		t.Errorf("no end after %d slices", looks)
	})
}

func TestMapIsOpenedForReadingOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a map")
	}
	m := newMap(t, "counts", ebpf.Array, 1)
	opened, err := openMap(mapID(t, m))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := opened.Put(uint32(0), uint32(1)); err == nil {
		t.Error("it can be written")
	}
}
