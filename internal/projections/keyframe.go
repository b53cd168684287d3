package projections

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// FoldVersion names what Apply makes of events. It is raised with every change after which the same events give
// another State, or State keeps more: keyframes of other versions are not used then. TestFoldVersion notices.
const FoldVersion = 3

// Marshal encodes all of State as an eventpb.State. The same State gives the same bytes.
func (s *State) Marshal() ([]byte, error) {
	m := &eventpb.State{
		Seq: s.Seq, SeenNs: s.SeenNs, Session: s.Session, Node: s.Node, FirstNs: s.FirstSeen, Recorder: s.Recorder,
		Kube: kubeLists(s.Kube), KubePending: kubeLists(s.kubePending), Agent: s.Agent.lists(),
		Host: s.Host.topics(), PodSockets: s.Host.podSockets(),
		Flows: s.Flows, Baseline: s.Baseline.message(), Unknown: s.Unknown,
		Findings: s.book.messages(), FindingsDropped: s.book.dropped, GoneBackends: s.LB.goneMessages(), Owners: ownerMessages(s.owners),
		Drops: s.dropMessages(), LeftSlots: s.leftMessages(), Missed: s.missedMessages(),
	}
	for _, name := range sortedNames(s.Sources) {
		m.Sources = append(m.Sources, s.Sources[name].message(name))
	}
	for _, name := range sortedNames(s.Maps) {
		m.Maps = append(m.Maps, s.Maps[name].message())
	}
	for _, pod := range slices.SortedFunc(maps.Keys(s.Logs), Name.compare) {
		l := s.Logs[pod]
		m.Logs = append(m.Logs, &eventpb.LogKnown{Namespace: pod.Namespace, Pod: pod.Name, PodUid: l.PodUID, ContainerId: l.ContainerID, LastNs: l.LastNs, Peer: l.Peer})
	}
	for _, name := range sortedNames(s.Probes) {
		m.Probes = append(m.Probes, s.Probes[name])
	}
	for _, mark := range s.Marks {
		m.Marks = append(m.Marks, &eventpb.MarkKnown{Seq: mark.Seq, SeenNs: mark.SeenNs, Text: mark.Text})
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode state at seq %d: %w", s.Seq, err)
	}
	return b, nil
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (n Name) compare(o Name) int {
	return cmp.Or(cmp.Compare(n.Namespace, o.Namespace), cmp.Compare(n.Name, o.Name))
}

func kubeLists(all map[eventpb.Kind]kubeObjects) []*eventpb.KubeObjects {
	var lists []*eventpb.KubeObjects
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		list := &eventpb.KubeObjects{Kind: kind}
		for _, name := range slices.SortedFunc(maps.Keys(all[kind]), Name.compare) {
			list.Objects = append(list.Objects, all[kind][name])
		}
		lists = append(lists, list)
	}
	return lists
}

func (a Agent) lists() []*eventpb.AgentObjects {
	var lists []*eventpb.AgentObjects
	for _, kind := range sortedNames(a) {
		list := &eventpb.AgentObjects{Kind: kind}
		for _, key := range sortedNames(a[kind]) {
			list.Objects = append(list.Objects, a[kind][key])
		}
		lists = append(lists, list)
	}
	return lists
}

func (src *Source) message(name string) *eventpb.SourceKnown {
	m := &eventpb.SourceKnown{Name: name, State: src.State, Error: src.Error, SinceNs: src.SinceNs, Events: src.Events, Gaps: src.Gaps, Epoch: src.epoch}
	if g := src.LastGap; g != nil {
		m.LastGap = &eventpb.Gap{FromNs: g.FromNs, ToNs: g.ToNs, Reason: g.Reason, Count: g.Count, Detail: g.Detail}
	}
	return m
}

func (m *Map) message() *eventpb.MapKnown {
	k := &eventpb.MapKnown{
		Map: m.Name, Type: m.Type, KeySize: m.KeySize, ValueSize: m.ValueSize, MaxEntries: m.MaxEntries, MapId: m.MapID,
		Readable: m.Readable, Epoch: m.epoch, Whole: m.whole, HasPending: m.pending != nil,
	}
	k.Entries, k.Since = joinEntries(m.Entries, func(v Value) (string, int64) { return v.Bytes, v.SinceNs })
	k.Pending, _ = joinEntries(m.pending, func(v string) (string, int64) { return v, 0 })
	return k
}

// joinEntries lays entries end to end in order of their keys. Times are differences; they are left out while all are 0.
func joinEntries[V any](entries map[string]V, of func(V) (value string, sinceNs int64)) (b []byte, since []int64) {
	keys := make([]string, 0, len(entries))
	size, aged := 0, false
	for k, e := range entries {
		keys = append(keys, k)
		v, ns := of(e)
		size += len(k) + len(v)
		aged = aged || ns != 0
	}
	slices.Sort(keys)
	b = make([]byte, 0, size)
	if aged {
		since = make([]int64, 0, len(keys))
	}
	last := int64(0)
	for _, k := range keys {
		v, ns := of(entries[k])
		b = append(append(b, k...), v...)
		if aged {
			since = append(since, ns-last)
			last = ns
		}
	}
	return b, since
}

func (h *Host) topics() *eventpb.HostState {
	t := &eventpb.HostState{Links: h.Links, Attachments: h.Attachments, Listeners: h.Listeners, TcFilters: h.TCFilters, Neighbours: h.Neighbours}
	for _, command := range sortedNames(h.ruleSets) {
		t.RuleSets = append(t.RuleSets, h.ruleSets[command].RuleSet)
	}
	return t
}

func (h *Host) podSockets() []*eventpb.PodSocketsKnown {
	var list []*eventpb.PodSocketsKnown
	for _, pod := range slices.SortedFunc(maps.Keys(h.PodSockets), Name.compare) {
		p := h.PodSockets[pod]
		list = append(list, &eventpb.PodSocketsKnown{Namespace: pod.Namespace, Pod: pod.Name, PodUid: p.uid, NetnsCookie: p.netns, Epoch: p.epoch, Sockets: p.sockets})
	}
	return list
}

func (b *Baseline) message() *eventpb.BaselineKnown {
	if b == nil {
		return nil
	}
	return &eventpb.BaselineKnown{
		ServiceUid: b.ServiceUID, ServiceId: uint32(b.ServiceID), Frontend: b.Frontend.String(),
		Backends: addressTexts(b.Backends), Pods: b.Pods,
	}
}

func (l *LB) goneMessages() []*eventpb.GoneBackend {
	var list []*eventpb.GoneBackend
	for _, g := range l.gone {
		list = append(list, &eventpb.GoneBackend{V6: g.V6, Id: g.ID, Address: g.Address.String(), Protocol: uint32(g.Proto), GoneNs: g.GoneNs, GoneSeq: g.Seq})
	}
	return list
}

func ownerMessages(owners map[frontendKey]Owner) []*eventpb.OwnerKnown {
	var list []*eventpb.OwnerKnown
	for _, k := range slices.SortedFunc(maps.Keys(owners), frontendKey.compare) {
		o := owners[k]
		list = append(list, &eventpb.OwnerKnown{Frontend: k.address.String(), Protocol: uint32(k.proto), Scope: uint32(k.scope),
			Kind: o.Kind, Namespace: o.Name.Namespace, Name: o.Name.Name, Uid: o.UID})
	}
	return list
}
