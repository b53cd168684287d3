package projections

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// byBackend are a conntrack map's entries of direction SVC by the id of the backend they lead to: by these the datapath
// sends on what it has once sent there.
type byBackend map[uint32]map[string]struct{}

// serve takes an entry in, or out.
func (s *State) serve(m *Map, key, value string, in bool) {
	if !cilium.CTKeyService(key) {
		return
	}
	id, _ := cilium.CTServiceBackend(value)
	b := backendKey{m.v6(), id}
	if !s.LB.has(b) {
		s.LB.touchBackend(b)
	}
	switch of := m.served[id]; {
	case !in:
		if delete(of, key); len(of) == 0 {
			delete(m.served, id)
		}
	case of != nil:
		of[key] = struct{}{}
	default:
		if m.served == nil {
			m.served = byBackend{}
		}
		m.served[id] = map[string]struct{}{key: {}}
	}
}

// serveAnew takes an entry in that may have led elsewhere.
func (s *State) serveAnew(m *Map, key, value string) {
	if !cilium.CTKeyService(key) {
		return
	}
	if old, ok := m.Entries[key]; ok {
		s.serve(m, key, old.Bytes, false)
	}
	s.serve(m, key, value, true)
}

// conntracks are the conntrack maps that were read: IPv4 first, of each family TCP first.
func (s *State) conntracks() (list []*Map) {
	for _, k := range []cilium.Kind{cilium.CT4TCP, cilium.CT4Any, cilium.CT6TCP, cilium.CT6Any} {
		if m := s.mapOf(k); m != nil {
			list = append(list, m)
		}
	}
	return list
}

// v6 is the family of a conntrack map.
func (m *Map) v6() bool { return m.Kind == cilium.CT6TCP || m.Kind == cilium.CT6Any }

// String is the id, which IPv6 has its own of: 12, 12/6.
func (b backendKey) String() string {
	text := strconv.FormatUint(uint64(b.id), 10)
	if b.v6 {
		text += "/6"
	}
	return text
}

func backendKeyOf(text string) backendKey {
	number, _, v6 := strings.Cut(text, "/")
	id, _ := strconv.ParseUint(number, 10, 32) // made by String
	return backendKey{v6, uint32(id)}
}

func (b backendKey) compare(o backendKey) int {
	if b.v6 == o.v6 {
		return cmp.Compare(b.id, o.id)
	}
	if o.v6 {
		return -1
	}
	return 1
}

func (l *LB) has(b backendKey) bool {
	_, ok := l.backends[b]
	return ok
}
