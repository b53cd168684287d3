package projections

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// services.json: every frontend in the map as map, agent and API have it. Its rows are made anew when their frontend
// changed, and put together from text.

// maxListed is how many slots services.json lists all of. With more (a file of some megabytes, written at every change) it lists,
// of every frontend, those where map, agent and API differ, and counts the others; `replay explain service` has them.
const maxListed = 10_000

// What services.json lists of slots and endpoints.
const (
	listedAll       = "all"
	listedDiffering = "differing"
)

// rows are the encoded rows of services.json.
type rows struct {
	made  map[frontendKey]row
	brief bool
}

type row struct {
	rev  uint64 // position at which what it is made of changed last
	data []byte
}

func newRows() *rows { return &rows{made: map[frontendKey]row{}} }

func servicesView(s *State, w *waits) any {
	if w.rows == nil {
		w.rows = newRows()
	}
	maps, kube := s.servicesRead(), s.Kube[eventpb.Kind_KIND_SERVICE] != nil
	need(w, "bpfmap", waitMaps, 0, maps)
	need(w, "kube", "the Services", 0, kube)
	w.rows.take(s, time.Time{})
	var b bytes.Buffer
	b.Grow(w.rows.size())
	b.WriteString("{\n  \"listed\": \"" + w.rows.listed() + "\",\n  \"node\": ")
	b.Write(oneLine(s.nodePlace()))
	b.WriteString(",\n  \"external_cluster_ip\": ")
	b.Write(oneLine(s.externalClusterIP()))
	b.WriteString(",\n  \"frontends\": ")
	w.rows.write(&b, s, maps, false)
	b.WriteString(",\n  \"wildcards\": ")
	w.rows.write(&b, s, maps, true)
	b.WriteString(",\n  \"services_without_frontend\": ")
	s.writeBare(&b, maps && kube)
	b.WriteString("\n}\n")
	return encoded(b.Bytes())
}

// zoneFile is where this node is, on which it depends which backends are near.
type zoneFile struct {
	Name *string `json:"name"`
	Zone *string `json:"zone"`
}

func (s *State) nodePlace() zoneFile {
	return zoneFile{some(s.joins.node.name), some(s.joins.node.zone)}
}

// externalClusterIP says whether the agent's option bpf-lb-external-clusterip is on, as the first ClusterIP frontend shows; nil
// without one. The agent does not tell.
func (s *State) externalClusterIP() *bool {
	for _, k := range s.LB.ordered() {
		if f := s.LB.frontends[k]; f.Head && f.Flags.Type() == "ClusterIP" && !k.wildcard() && !k.address.Addr().IsUnspecified() {
			on := f.Flags&cilium.FlagRoutable != 0
			return &on
		}
	}
	return nil
}

// servicesRead says that a map of Services is known.
func (s *State) servicesRead() bool {
	return s.mapOf(cilium.Services4) != nil || s.mapOf(cilium.Services6) != nil
}

// take makes the rows that changed anew, and drops those of frontends that are gone. It stops at a deadline (zero: none), and
// says whether all were made.
func (r *rows) take(s *State, deadline time.Time) bool {
	if brief := s.LB.slotCount > maxListed; brief != r.brief {
		r.brief = brief
		clear(r.made)
	}
	keys := s.LB.ordered()
	if len(r.made) > len(keys) {
		for k := range r.made {
			if s.LB.frontends[k] == nil {
				delete(r.made, k)
			}
		}
	}
	for i, k := range keys {
		f := s.LB.frontends[k]
		if have, ok := r.made[k]; ok && have.rev == f.rev {
			continue
		}
		r.made[k] = row{f.rev, r.encode(s, k, f)}
		if i%16 == 0 && !deadline.IsZero() && time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func (r *rows) encode(s *State, k frontendKey, f *Frontend) []byte {
	switch {
	case k.wildcard():
		return oneLine(s.wildcardOf(k, f))
	case r.brief:
		return oneLine(s.frontendOf(k, f, true))
	}
	return laidOut(s.frontendOf(k, f, false))
}

func (k frontendKey) wildcard() bool { return k.address.Port() == 0 && k.proto == cilium.Any }

func (r *rows) listed() string {
	if r.brief {
		return listedDiffering
	}
	return listedAll
}

func (r *rows) size() int {
	n := 4096
	for _, row := range r.made {
		n += len(row.data) + 6
	}
	return n
}

func (r *rows) write(b *bytes.Buffer, s *State, known, wildcards bool) {
	l := listWriter{b: b}
	for _, k := range s.LB.ordered() {
		if k.wildcard() == wildcards {
			l.add(r.made[k].data)
		}
	}
	l.end(known)
}

// listWriter writes a list with an element to a line.
type listWriter struct {
	b *bytes.Buffer
	n int
}

func (l *listWriter) add(element []byte) {
	if l.n == 0 {
		l.b.WriteString("[\n    ")
	} else {
		l.b.WriteString(",\n    ")
	}
	l.b.Write(element)
	l.n++
}

func (l *listWriter) end(known bool) {
	switch {
	case !known:
		l.b.WriteString("null")
	case l.n == 0:
		l.b.WriteString("[]")
	default:
		l.b.WriteString("\n  ]")
	}
}

// oneLine encodes a row on one line.
func oneLine(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("projections: encode a row of services.json: " + err.Error()) // as encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// laidOut encodes a row with a field to a line, and an element of a list of objects to a line.
func laidOut(v any) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		if i > 0 {
			b.WriteByte(',')
		}
		field := value.Field(i)
		b.WriteString("\n      \"" + value.Type().Field(i).Tag.Get("json") + "\": ")
		if field.Kind() != reflect.Slice || field.Type().Elem().Kind() != reflect.Struct || field.Len() == 0 {
			b.Write(oneLine(field.Interface()))
			continue
		}
		b.WriteByte('[')
		for n := range field.Len() {
			if n > 0 {
				b.WriteByte(',')
			}
			b.WriteString("\n        ")
			b.Write(oneLine(field.Index(n).Interface()))
		}
		b.WriteString("\n      ]")
	}
	b.WriteString("\n    }")
	return b.Bytes()
}
