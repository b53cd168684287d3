package facts

import (
	"encoding/hex"
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// mapEntry is one entry of a map, as bytes; value is nil when the entry is gone.
type mapEntry struct {
	delta      *eventpb.MapDelta
	key, value []byte
}

func (s *splitter) maps(b *eventpb.MapDeltas) {
	for _, d := range b.Maps {
		n := s.n
		s.entries(d, listed(d.Complete || d.Parts > 1, false), d.Upserts, d.KeySize+d.ValueSize)
		s.entries(d, Delete, d.Deletes, d.KeySize)
		switch {
		case n != s.n:
		case d.Absent:
			s.add(d.Map, Delete, 0, noEntries{d, "there is no such map"})
		case d.Unsupported:
			s.add(d.Map, Snapshot, 0, noEntries{d, fmt.Sprintf("keys of %d and values of %d bytes: this version cannot read them", d.KeySize, d.ValueSize)})
		default:
			s.add(d.Map, listed(d.Complete, false), 0, noEntries{d, "no entries"})
		}
	}
}

// entries parts bytes into entries of size each. Bytes that are left over belong to no entry and are passed over: the
// event then is not what a source wrote, which verify says.
func (s *splitter) entries(d *eventpb.MapDelta, op Op, b []byte, size uint32) {
	n, key := int(size), int(d.KeySize)
	if n == 0 || key > n {
		return
	}
	for ; len(b) >= n && s.err == nil; b = b[n:] {
		e := mapEntry{delta: d, key: b[:key:key]}
		if op != Delete {
			e.value = b[key:n:n]
		}
		s.add(d.Map, op, 0, e)
	}
}

func (e mapEntry) members() []member {
	o := mapMembers(e.delta)
	if d := e.decode(); d != nil {
		o = append(o, member{"key", d.key()})
		if e.value != nil {
			o = append(o, member{"value", d.value()})
		}
		return []member{{"map", o}}
	}
	if id, ok := cilium.PolicyEndpoint(e.delta.Map); ok {
		o = append(o, member{"endpoint_id", id})
	}
	o = append(o, member{"key_hex", hex.EncodeToString(e.key)})
	if e.value != nil {
		o = append(o, member{"value_hex", hex.EncodeToString(e.value)})
	}
	return []member{{"map", o}}
}

func mapMembers(d *eventpb.MapDelta) object {
	o := object{{"name", d.Map}}
	if d.MapId != 0 {
		o = append(o, member{"id", d.MapId})
	}
	return o
}

func (e mapEntry) refs(r *Refs) {
	r.Map = e.delta.Map
	if d := e.decode(); d != nil {
		d.refs(r)
	}
}

func (e mapEntry) text(b *Book) string {
	if d := e.decode(); d != nil {
		return e.delta.Map + "  " + d.text(b, e.value != nil)
	}
	text := e.delta.Map + "  " + hex.EncodeToString(e.key)
	if e.value != nil {
		text += " = " + hex.EncodeToString(e.value)
	}
	return text
}

// noEntries says of a whole map that there is nothing to show.
type noEntries struct {
	delta *eventpb.MapDelta
	why   string
}

func (n noEntries) members() []member {
	o := mapMembers(n.delta)
	switch {
	case n.delta.Absent:
		o = append(o, member{"absent", true})
	case n.delta.Unsupported:
		o = append(o, member{"unsupported", true}, member{"key_size", n.delta.KeySize}, member{"value_size", n.delta.ValueSize})
	default:
		o = append(o, member{"empty", true})
	}
	return []member{{"map", o}}
}

func (n noEntries) refs(r *Refs)      { r.Map = n.delta.Map }
func (n noEntries) text(*Book) string { return n.delta.Map + "  " + n.why }
