package projections

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// A State has no more parts than that: each takes a hundred bytes of memory and more, and could have two on a tape.
const leastParts, bytesPerPart = 1 << 20, 16

// UnmarshalState decodes what Marshal of the same FoldVersion made. Folding goes on from there as if it had come
// from the start.
func UnmarshalState(b []byte) (*State, error) {
	m := &eventpb.State{}
	if limit := leastParts + len(b)/bytesPerPart; len(b) > 2*leastParts && events.Sprawls(b, m.ProtoReflect().Descriptor(), limit) {
		return nil, fmt.Errorf("decode state: more than %d parts in %d bytes", limit, len(b))
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	s := NewState()
	s.Seq, s.SeenNs, s.FirstSeen, s.Flows, s.Unknown = m.Seq, m.SeenNs, m.FirstNs, m.Flows, m.Unknown
	s.Session, s.Node = m.Session, m.Node
	s.Recorder, s.Profile = m.Recorder, profileOf(m.Recorder)
	for _, src := range m.Sources {
		s.Sources[src.Name] = sourceFrom(src)
	}
	s.kubePending = kubeFrom(m.KubePending)
	for kind, objects := range kubeFrom(m.Kube) {
		s.Kube[kind] = kubeObjects{}
		for n, o := range objects {
			s.setKube(kind, n, o)
		}
	}
	s.noteNode()
	for _, list := range m.Agent {
		s.applyAgent(list)
	}
	if m.Host != nil {
		s.Host.apply(0, m.Host)
	}
	for _, p := range m.PodSockets {
		s.Host.PodSockets[Name{p.Namespace, p.Pod}] = &podSockets{p.PodUid, p.NetnsCookie, p.Sockets, p.Epoch}
	}
	for _, l := range m.Logs {
		s.Logs[Name{l.Namespace, l.Pod}] = &Log{PodUID: l.PodUid, ContainerID: l.ContainerId, LastNs: l.LastNs, Peer: l.Peer}
	}
	for _, p := range m.Probes {
		s.Probes[p.Name] = p
	}
	for _, mark := range m.Marks {
		s.Marks = append(s.Marks, Mark{mark.Seq, mark.SeenNs, mark.Text})
	}
	var err error
	if s.Baseline, err = baselineFrom(m.Baseline); err != nil {
		return nil, fmt.Errorf("decode state: baseline: %w", err)
	}
	for _, known := range m.Maps {
		if err := s.restoreMap(known); err != nil {
			return nil, fmt.Errorf("decode state: map %s: %w", known.Map, err)
		}
	}
	for _, x := range m.Missed {
		s.missed[missedKey{x.Source, x.Reason}] = &missed{x.FromNs, x.ToNs, x.ToldNs}
	}
	s.book = bookFrom(m.Findings, m.FindingsDropped)
	if err := s.restoreLB(m); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	for _, d := range m.Drops {
		s.drops[dropKey{d.Path, flowpb.DropReason(d.Reason)}] = &drops{d.Count, d.FirstNs, d.LastNs, d.From, d.To, d.Also}
	}
	if s.left, err = leftFrom(m.LeftSlots); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	s.noteBare()
	return s, nil
}

// restoreLB restores what is remembered of the maps and is not in them.
func (s *State) restoreLB(m *eventpb.State) error {
	for _, g := range m.GoneBackends {
		a, err := netip.ParseAddrPort(g.Address)
		if err != nil {
			return fmt.Errorf("backend %d that is gone: %w", g.Id, err)
		}
		s.LB.remember(GoneBackend{g.V6, g.Id, a, cilium.Proto(g.Protocol), g.GoneNs, g.GoneSeq})
	}
	for _, o := range m.Owners {
		a, err := netip.ParseAddrPort(o.Frontend)
		if err != nil {
			return fmt.Errorf("owner of a frontend: %w", err)
		}
		s.own(frontendKey{a, cilium.Proto(o.Protocol), uint8(o.Scope)}, Owner{o.Kind, Name{o.Namespace, o.Name}, o.Uid})
	}
	return nil
}

func sourceFrom(m *eventpb.SourceKnown) *Source {
	src := &Source{State: m.State, Error: m.Error, SinceNs: m.SinceNs, Events: m.Events, Gaps: m.Gaps, epoch: m.Epoch}
	if g := m.LastGap; g != nil {
		src.LastGap = &Gap{g.FromNs, g.ToNs, g.Reason, g.Count, g.Detail}
	}
	return src
}

func kubeFrom(lists []*eventpb.KubeObjects) map[eventpb.Kind]kubeObjects {
	all := make(map[eventpb.Kind]kubeObjects, len(lists))
	for _, list := range lists {
		objects := make(kubeObjects, len(list.Objects))
		for _, o := range list.Objects {
			objects[Name{o.Namespace, o.Name}] = o
		}
		all[list.Kind] = objects
	}
	return all
}

// restoreMap makes a map of its bytes, and what is decoded of it.
func (s *State) restoreMap(known *eventpb.MapKnown) error {
	layout, ok := cilium.Lookup(known.Map, known.KeySize, known.ValueSize)
	m := &Map{Name: known.Map, Kind: layout.Kind, MapID: known.MapId, MaxEntries: known.MaxEntries, Type: known.Type,
		KeySize: known.KeySize, ValueSize: known.ValueSize, Readable: ok && known.Readable, epoch: known.Epoch, whole: known.Whole}
	values, err := splitEntries(m, known.Entries)
	if err != nil {
		return err
	}
	if m.Entries, err = aged(values, known); err != nil {
		return err
	}
	if known.HasPending {
		if m.pending, err = splitPending(m, known.Pending); err != nil {
			return err
		}
	}
	s.Maps[m.Name] = m
	switch m.Kind {
	case cilium.CT4TCP, cilium.CT6TCP, cilium.CT4Any, cilium.CT6Any:
		for k, v := range m.Entries {
			s.serve(m, k, v.Bytes, true)
		}
	case cilium.Services4, cilium.Services6, cilium.Backends4, cilium.Backends6, cilium.SourceRange4, cilium.SourceRange6:
		for k, v := range m.Entries {
			s.added(m, k, v.Bytes)
		}
	}
	return nil
}

var errEntries = errors.New("bytes are no whole entries")

// splitEntries walks entries laid end to end. They are parts of one string, so that a large map costs no allocation
// for each entry.
func splitEntries(m *Map, b []byte) (iter.Seq2[string, string], error) {
	key, size := int(m.KeySize), int(m.KeySize)+int(m.ValueSize)
	if len(b) > 0 && (key == 0 || len(b)%size != 0) {
		return nil, errEntries
	}
	return func(yield func(key, value string) bool) {
		for all := string(b); all != ""; all = all[size:] {
			if !yield(all[:key], all[key:size]) {
				return
			}
		}
	}, nil
}

func aged(values iter.Seq2[string, string], known *eventpb.MapKnown) (map[string]Value, error) {
	n := 0
	if size := known.KeySize + known.ValueSize; size > 0 {
		n = len(known.Entries) / int(size)
	}
	if len(known.Since) != 0 && len(known.Since) != n {
		return nil, errEntries
	}
	entries := make(map[string]Value, n)
	i, since := 0, int64(0)
	for k, v := range values {
		if len(known.Since) > 0 {
			since += known.Since[i]
		}
		entries[k] = Value{v, since}
		i++
	}
	return entries, nil
}

func splitPending(m *Map, b []byte) (map[string]string, error) {
	values, err := splitEntries(m, b)
	if err != nil {
		return nil, err
	}
	return maps.Collect(values), nil
}

func baselineFrom(m *eventpb.BaselineKnown) (*Baseline, error) {
	if m == nil {
		return nil, nil
	}
	b := &Baseline{ServiceUID: m.ServiceUid, ServiceID: uint16(m.ServiceId), Pods: m.Pods}
	var err error
	if b.Frontend, err = netip.ParseAddrPort(m.Frontend); err != nil {
		return nil, err
	}
	for _, text := range m.Backends {
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, err
		}
		b.Backends = append(b.Backends, a)
	}
	return b, nil
}
