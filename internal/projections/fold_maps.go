package projections

import (
	"bytes"
	"iter"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Map is one pinned map as it was last read.
type Map struct {
	Name       string
	Kind       cilium.Kind
	MapID      uint32
	MaxEntries uint32
	Type       string
	KeySize    uint32
	ValueSize  uint32
	Readable   bool             // its layout is known
	Entries    map[string]Value // by key bytes

	whole   bool              // it was read whole before
	pending map[string]string // of a dump whose last part is not there yet
	epoch   uint64
	near    portKeys  // of a conntrack map
	served  byBackend // of a conntrack map
}

// Value is an entry's value.
type Value struct {
	Bytes   string
	SinceNs int64 // when the entry was first seen; 0 for one that was there at the first look
}

func (s *State) applyMaps(epoch uint64, b *eventpb.MapDeltas) {
	for _, d := range b.Maps {
		if d.Absent {
			s.dropMap(d.Map)
			continue
		}
		m := s.mapFor(d)
		m.epoch = epoch
		s.touchMap(m)
		switch {
		case !m.Readable:
			// Known to be there, and not what is in it.
		case d.Complete:
			s.applyDump(m, d)
		default:
			s.applyChanges(m, d)
		}
	}
}

// mapFor returns the map, new when its shape is another than before.
func (s *State) mapFor(d *eventpb.MapDelta) *Map {
	m := s.Maps[d.Map]
	if m != nil && m.KeySize == d.KeySize && m.ValueSize == d.ValueSize {
		if m.MapID != d.MapId || m.MaxEntries != d.MaxEntries {
			m.MapID, m.MaxEntries = d.MapId, d.MaxEntries
			s.touch(topicPins)
		}
		return m
	}
	s.dropMap(d.Map)
	layout, ok := cilium.Lookup(d.Map, d.KeySize, d.ValueSize)
	m = &Map{Name: d.Map, Kind: layout.Kind, MapID: d.MapId, MaxEntries: d.MaxEntries, Type: d.Type, KeySize: d.KeySize, ValueSize: d.ValueSize,
		Readable: ok && !d.Unsupported, Entries: map[string]Value{}}
	s.Maps[d.Map] = m
	s.touch(topicPins)
	s.touchFamily(m)
	return m
}

// applyDump takes a whole map in place of what was known, when its last part is there.
func (s *State) applyDump(m *Map, d *eventpb.MapDelta) {
	if m.pending == nil || d.Part <= 1 {
		m.pending = map[string]string{}
	}
	for k, v := range entries(d) {
		m.pending[string(k)] = string(v)
	}
	if d.Part < d.Parts {
		return
	}
	var gone []string
	for k := range m.Entries {
		if _, ok := m.pending[k]; !ok {
			gone = append(gone, k)
		}
	}
	slices.Sort(gone) // it is remembered in which order backends went
	for _, k := range gone {
		s.removed(m, k)
		delete(m.Entries, k)
	}
	since := s.SeenNs
	if !m.whole {
		since = 0
	}
	for k, v := range m.pending {
		s.put(m, k, v, since)
	}
	m.whole, m.pending = true, nil
}

// put takes an entry as it is now.
func (s *State) put(m *Map, key, value string, sinceNs int64) {
	have, ok := m.Entries[key]
	if ok {
		sinceNs = have.SinceNs
	}
	if !ok || have.Bytes != value {
		s.added(m, key, value)
		m.Entries[key] = Value{value, sinceNs}
	}
}

func (s *State) applyChanges(m *Map, d *eventpb.MapDelta) {
	size := int(m.KeySize)
	for keys := d.Deletes; size > 0 && len(keys) >= size; keys = keys[size:] {
		key := string(keys[:size])
		s.removed(m, key)
		delete(m.Entries, key)
	}
	for k, v := range entries(d) {
		s.put(m, string(k), string(v), s.SeenNs)
	}
}

// entries walks a delta's upserts; bytes that make no whole entry are left out.
func entries(d *eventpb.MapDelta) iter.Seq2[[]byte, []byte] {
	k, size := int(d.KeySize), int(d.KeySize)+int(d.ValueSize)
	return func(yield func(key, value []byte) bool) {
		for b := d.Upserts; k > 0 && len(b) >= size; b = b[size:] {
			if !yield(b[:k:k], b[k:size:size]) {
				return
			}
		}
	}
}

func (s *State) dropMap(name string) {
	m := s.Maps[name]
	if m == nil {
		return
	}
	for _, k := range sortedNames(m.Entries) {
		s.removed(m, k)
	}
	delete(s.Maps, name)
	s.touch(topicPins)
	s.touchMap(m)
	s.touchFamily(m)
}

// added and removed keep what is decoded of a map in step with its bytes.
func (s *State) added(m *Map, key, value string) {
	switch m.Kind {
	case cilium.Services4, cilium.Services6:
		s.LB.addService([]byte(key), []byte(value))
	case cilium.Backends4, cilium.Backends6:
		s.LB.addBackend(m.Kind, []byte(key), []byte(value))
	case cilium.SourceRange4, cilium.SourceRange6:
		s.LB.rangeEntry(m.Kind, []byte(key), true)
	case cilium.CT4TCP, cilium.CT6TCP, cilium.CT4Any, cilium.CT6Any:
		m.near.added(key)
		s.serveAnew(m, key, value)
	}
}

func (s *State) removed(m *Map, key string) {
	switch m.Kind {
	case cilium.Services4, cilium.Services6:
		s.LB.removeService([]byte(key), bytes.Repeat([]byte{0}, int(m.ValueSize)))
	case cilium.Backends4, cilium.Backends6:
		s.LB.removeBackend(m.Kind, []byte(key), s.SeenNs, s.Seq)
	case cilium.SourceRange4, cilium.SourceRange6:
		s.LB.rangeEntry(m.Kind, []byte(key), false)
	case cilium.CT4TCP, cilium.CT6TCP, cilium.CT4Any, cilium.CT6Any:
		m.near.removed(key)
		s.serve(m, key, m.Entries[key].Bytes, false)
	}
}

// mapOf returns the map of a kind, nil while it was not read.
func (s *State) mapOf(k cilium.Kind) *Map {
	for _, m := range s.Maps {
		if m.Kind == k && m.Readable {
			return m
		}
	}
	return nil
}

// unreadableMap returns the first map by name, of those the files rest on, whose layout this version does not know.
func (s *State) unreadableMap() *Map {
	var first *Map
	for _, m := range s.Maps {
		switch m.Kind {
		case cilium.Services4, cilium.Backends4, cilium.CT4TCP, cilium.Services6, cilium.Backends6, cilium.CT6TCP:
			if !m.Readable && (first == nil || m.Name < first.Name) {
				first = m
			}
		}
	}
	return first
}

// policyMap returns the name of the endpoint's policy map.
func (s *State) policyMap(endpointID int64) (string, bool) {
	best := ""
	for name := range s.Maps {
		if id, ok := cilium.PolicyEndpoint(name); ok && int64(id) == endpointID && name > best {
			best = name // the newest version, where an upgrade left the older one
		}
	}
	return best, best != ""
}
