package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// frontend is one frontend of the map, with what its slots name.
type frontend struct {
	head  projections.Entry[cilium.Service]
	slots []slot
}

type slot struct {
	entry   projections.Entry[cilium.Service]
	backend *projections.Entry[cilium.Backend] // nil: its id is not in the map
}

// frontends are those of the map that a filter takes, by address; wildcards (port 0) are left out.
func (e *Explanation) frontends(take func(cilium.Service) bool) []*frontend {
	type key struct {
		address netip.AddrPort
		proto   cilium.Proto
		scope   uint8
	}
	backends := e.backends()
	found := map[key]*frontend{}
	var list []*frontend
	for _, s := range projections.EntriesOf(e.state, cilium.DecodeService, cilium.Services4, cilium.Services6) {
		v := s.Value
		if v.Frontend.Port() == 0 || !take(v) {
			continue
		}
		k := key{v.Frontend, v.Proto, v.Scope}
		if found[k] == nil {
			found[k] = &frontend{}
			list = append(list, found[k])
		}
		if v.Head() {
			found[k].head = s
			continue
		}
		found[k].slots = append(found[k].slots, slot{s, backends[backendID{v.Frontend.Addr().Is6(), v.BackendID}]})
	}
	list = slices.DeleteFunc(list, func(f *frontend) bool { return f.head.Map == "" })
	slices.SortFunc(list, func(a, b *frontend) int {
		x, y := a.head.Value, b.head.Value
		return cmp.Or(x.Frontend.Compare(y.Frontend), cmp.Compare(x.Proto, y.Proto), cmp.Compare(x.Scope, y.Scope))
	})
	for _, f := range list {
		slices.SortFunc(f.slots, func(a, b slot) int { return cmp.Compare(a.entry.Value.Slot, b.entry.Value.Slot) })
	}
	return list
}

type backendID struct {
	v6 bool
	id uint32
}

func (e *Explanation) backends() map[backendID]*projections.Entry[cilium.Backend] {
	m := map[backendID]*projections.Entry[cilium.Backend]{}
	for kind, v6 := range map[cilium.Kind]bool{cilium.Backends4: false, cilium.Backends6: true} {
		for _, b := range projections.EntriesOf(e.state, cilium.DecodeBackend, kind) {
			m[backendID{v6, b.Value.ID}] = &b
		}
	}
	return m
}

// name is the frontend as `cilium-dbg bpf lb list` has it, without the slot.
func (f *frontend) name() string {
	name, _, _ := strings.Cut(f.head.Value.String(), " (")
	return name
}

// addresses are those of the slots' backends, ascending and each once.
func (f *frontend) addresses() []netip.AddrPort {
	var list []netip.AddrPort
	for _, s := range f.slots {
		if s.backend != nil {
			list = append(list, s.backend.Value.Address)
		}
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// facts are the frontend's entries and the backends that they name.
func (f *frontend) facts() []fact {
	list := []fact{entryOf(f.head)}
	for _, s := range f.slots {
		list = append(list, s.facts()...)
	}
	return list
}

func (s slot) facts() []fact {
	list := []fact{entryOf(s.entry)}
	if s.backend != nil {
		list = append(list, entryOf(*s.backend))
	}
	return list
}

// says is the frontend in words.
func (f *frontend) says() string {
	v := f.head.Value
	text := fmt.Sprintf("id %d, %s, %s", v.RevNAT, v.Flags, count(len(f.slots), "slot"))
	var slots []string
	for _, s := range f.slots {
		slots = append(slots, s.says())
	}
	if len(slots) > 0 {
		text += ": " + strings.Join(slots, ", ")
	}
	return text
}

func (s slot) says() string {
	switch {
	case s.backend == nil:
		return fmt.Sprintf("backend %d, which is not in the map", s.entry.Value.BackendID)
	case s.backend.Value.State != cilium.BackendActive:
		return fmt.Sprintf("%s (%s)", s.backend.Value.Address, s.backend.Value.State)
	}
	return s.backend.Value.Address.String()
}

// dangling says which slots name a backend that is not in the map.
func (e *Explanation) dangling(f *frontend) {
	for _, s := range f.slots {
		if s.backend == nil {
			v := s.entry.Value
			e.say(fmt.Sprintf("Slot %d of %s names backend %d, which is not in the map of backends: what is sent there is lost.", v.Slot, f.name(), v.BackendID),
				append(e.wholeMaps(backendKind(v.Frontend.Addr())), entryOf(s.entry))...)
		}
	}
}

func backendKind(a netip.Addr) cilium.Kind {
	if a.Is6() {
		return cilium.Backends6
	}
	return cilium.Backends4
}

// wholeMaps are the facts that the maps of these kinds were read as a whole.
func (e *Explanation) wholeMaps(kinds ...cilium.Kind) []fact {
	var list []fact
	for _, k := range kinds {
		if m := e.state.MapOf(k); m != nil {
			list = append(list, fact{wholeMap, m.Name, ""})
		}
	}
	return list
}

func count(n int, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func texts[T fmt.Stringer](list []T) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return strings.Join(out, ", ")
}
