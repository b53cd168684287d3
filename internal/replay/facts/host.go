package facts

import (
	"fmt"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// hostThing is one thing of the node that comes whole in its own message.
type hostThing struct {
	proto.Message
	line string
	find func(*Refs)
}

func (s *splitter) host(b *eventpb.HostState) {
	for _, set := range b.RuleSets {
		text := fmt.Sprintf("%s prints %d lines", set.Command, len(set.Lines))
		if set.Unreadable != "" {
			text = fmt.Sprintf("%s, not whole: %s", text, set.Unreadable)
		}
		s.add("rule_set", Snapshot, 0, hostThing{set, text, nil})
	}
	if b.Links != nil {
		s.links(b.Links)
	}
	if b.Attachments != nil {
		s.attachments(b.Attachments)
	}
	if b.Listeners != nil {
		s.sockets("listener", "", b.Listeners.Sockets)
	}
	for _, p := range b.PodSockets {
		s.podSockets(p)
	}
	if b.TcFilters != nil {
		s.tcFilters(b.TcFilters)
	}
}

func (s *splitter) links(b *eventpb.Links) {
	for _, l := range b.Links {
		state := "down"
		if l.Up {
			state = "up"
		}
		s.add("link", Snapshot, 0, hostThing{l, fmt.Sprintf("link %d %s %s %s %s", l.Index, l.Name, l.Type, state, l.Mac), nil})
	}
	if len(b.Links) == 0 {
		s.add("link", Snapshot, 0, empty{"no links"})
	}
}

func (s *splitter) attachments(b *eventpb.Attachments) {
	for _, a := range b.Attachments {
		where := a.Cgroup
		if a.Ifindex != 0 {
			where = fmt.Sprintf("%s (%d)", a.Device, a.Ifindex)
		}
		s.add("attachment", Snapshot, 0, hostThing{a, fmt.Sprintf("%s at %s runs %s, program %d", a.Attach, where, a.Program, a.ProgramId), nil})
	}
	for _, text := range b.Unreadable {
		s.add("attachment", Snapshot, 0, unreadable{text})
	}
	if len(b.Attachments)+len(b.Unreadable) == 0 {
		s.add("attachment", Snapshot, 0, empty{"no programs attached"})
	}
}

func (s *splitter) podSockets(p *eventpb.PodSockets) {
	name := p.Namespace + "/" + p.Pod
	if p.Gone {
		s.add("socket", Delete, 0, podThing{name, empty{"sockets of " + name + " are gone with it"}})
		return
	}
	s.sockets("socket", name, p.Sockets)
	if p.Omitted > 0 {
		s.add("socket", Snapshot, 0, podThing{name, unreadable{fmt.Sprintf("%d more sockets of %s", p.Omitted, name)}})
	}
}

func (s *splitter) sockets(typ, pod string, list []*eventpb.Socket) {
	of := ""
	if pod != "" {
		of = " of " + pod
	}
	for _, k := range list {
		text := fmt.Sprintf("%s %s %s", k.Protocol, k.State, k.Local)
		if typ == "socket" {
			text += " -> " + k.Remote
		}
		find := func(r *Refs) {
			r.addSocket(k.Local)
			if k.State != "LISTEN" {
				r.addSocket(k.Remote)
			}
		}
		s.add(typ, Snapshot, 0, podThing{pod, hostThing{k, text + of, find}})
	}
	if len(list) == 0 {
		s.add(typ, Snapshot, 0, podThing{pod, empty{"no " + typ + "s" + of}})
	}
}

func (s *splitter) tcFilters(b *eventpb.TCFilters) {
	for _, f := range b.Filters {
		s.add("tc_filter", Snapshot, 0, hostThing{f, fmt.Sprintf("tc %s of %s: %s", f.Direction, f.Device, strings.Join(f.Lines, "; ")), nil})
	}
	if len(b.Filters) == 0 {
		s.add("tc_filter", Snapshot, 0, empty{"no tc filters"})
	}
}

func (h hostThing) members() []member { return []member{{"host", messageOf(h.Message)}} }
func (h hostThing) text(*Book) string { return h.line }
func (h hostThing) refs(r *Refs) {
	if h.find != nil {
		h.find(r)
	}
}

// podThing is a thing inside a pod; "" is the node.
type podThing struct {
	pod string
	body
}

func (p podThing) members() []member {
	if p.pod == "" {
		return p.body.members()
	}
	return append([]member{{"pod", p.pod}}, p.body.members()...)
}

func (p podThing) refs(r *Refs) {
	r.addPod(p.pod)
	p.body.refs(r)
}

// unreadable is what could not be looked at.
type unreadable struct{ what string }

func (u unreadable) members() []member { return []member{{"unreadable", u.what}} }
func (unreadable) refs(*Refs)          {}
func (u unreadable) text(*Book) string { return "not seen: " + u.what }
