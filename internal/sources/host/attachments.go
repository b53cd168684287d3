package host

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/vishvananda/netlink"
	"google.golang.org/protobuf/proto"
)

// attachments is the topic of programs at devices and at the cgroup of socket load balancing.
type attachments struct {
	log      *slog.Logger
	links    *links
	filters  *filters
	programs *programs
	cgroups  *cgroups
	reach    *reach
	last     *eventpb.Attachments // without what they reach
}

func newAttachments(cfg Config, l *links, f *filters) *attachments {
	a := &attachments{log: cfg.Logger, links: l, filters: f, programs: newPrograms(), cgroups: newCgroups(cfg)}
	a.reach = newReach(a)
	return a
}

func (a *attachments) look(_ context.Context, out *eventpb.HostState) error {
	now := &eventpb.Attachments{}
	var unreadable []string
	missed := func(what string, err error) {
		if s := what + ": " + rootCause(err).Error(); !slices.Contains(unreadable, s) {
			unreadable = append(unreadable, s)
		}
	}
	for _, l := range a.links.list {
		now.Attachments = append(now.Attachments, a.ofDevice(l, missed)...)
	}
	now.Attachments = append(now.Attachments, a.cgroups.attachments(missed)...)
	a.describe(now.Attachments, missed)
	now.Unreadable = unreadable
	if a.last == nil || !proto.Equal(now, a.last) {
		if len(unreadable) > 0 {
			a.log.Warn("attached programs are not wholly readable", "reasons", unreadable)
		}
		a.last = now
		a.reach.stir()
		a.tell(out)
	}
	return nil
}

// tell adds the topic whole, with what the programs reach as far as that is known.
func (a *attachments) tell(out *eventpb.HostState) {
	out.Attachments = &eventpb.Attachments{
		Attachments: a.last.Attachments,
		Unreadable:  slices.Concat(a.last.Unreadable, a.reach.unreadable),
		Reached:     a.reach.reached,
		UsedMaps:    a.reach.used,
	}
}

// deviceHooks are those that a BPF_PROG_QUERY by device answers, spelled as bpftool does.
var deviceHooks = [...]struct {
	name   string
	attach ebpf.AttachType
	kind   string // of devices that have the hook; empty for all
}{
	{"tcx/ingress", ebpf.AttachTCXIngress, ""},
	{"tcx/egress", ebpf.AttachTCXEgress, ""},
	{"netkit/primary", ebpf.AttachNetkitPrimary, "netkit"},
	{"netkit/peer", ebpf.AttachNetkitPeer, "netkit"},
}

// ofDevice lists XDP, then tcx and netkit, then classic tc: the order in which a packet meets them.
func (a *attachments) ofDevice(l netlink.Link, missed func(string, error)) (list []*eventpb.Attachment) {
	attrs := l.Attrs()
	add := func(hook string, id ebpf.ProgramID, linkID uint32) {
		list = append(list, &eventpb.Attachment{Attach: hook, Ifindex: int32(attrs.Index), Device: attrs.Name,
			ProgramId: uint32(id), LinkId: linkID})
	}
	if x := attrs.Xdp; x != nil && x.Attached && x.ProgId != 0 {
		add("xdp", ebpf.ProgramID(x.ProgId), 0)
	}
	for _, h := range deviceHooks {
		if h.kind != "" && h.kind != l.Type() {
			continue
		}
		found, err := query(attrs.Index, h.attach)
		if err != nil {
			missed("programs at devices", err)
			continue
		}
		for _, p := range found {
			linkID, _ := p.LinkID()
			add(h.name, p.ID, uint32(linkID))
		}
	}
	for _, d := range a.filters.list {
		if d.link.Index != attrs.Index {
			continue
		}
		for _, f := range d.filters {
			if b, ok := f.(*netlink.BpfFilter); ok && b.Id != 0 {
				add("tc/"+d.direction, ebpf.ProgramID(b.Id), 0)
			}
		}
	}
	return list
}

// describe fills in what the programs are. One that was detached meanwhile keeps its id alone.
func (a *attachments) describe(list []*eventpb.Attachment, missed func(string, error)) {
	attached := map[ebpf.ProgramID]bool{}
	for _, at := range list {
		attached[ebpf.ProgramID(at.ProgramId)] = true
		p, err := a.programs.get(ebpf.ProgramID(at.ProgramId))
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				missed("names of programs", err)
			}
			continue
		}
		at.Program, at.Tag, at.MapIds = p.name, p.tag, p.maps
	}
	a.programs.retain(attached, a.reach.visited)
}

// rootCause is the innermost error: the words around it name ids, which would make each look differ.
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
