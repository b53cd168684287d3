package projections

import (
	"cmp"
	"slices"
	"strings"
)

// Thing is one thing that State knows of, in words: a slot, a backend, a connection, an endpoint.
type Thing struct {
	Kind   string
	Name   string // alone of its kind
	Fields []Field
}

// Field is one property of a Thing.
type Field struct{ Name, Value string }

// thingKinds are the kinds of things, in the order in which they are listed: what the API wants, what the agent makes
// of it, what the maps hold, what the node and its pods do with it.
var thingKinds = []string{
	"service", "endpoint", "pod", "node", "cilium endpoint",
	"agent frontend", "agent backend", "agent endpoint",
	"slot", "backend", "rev-nat", "affinity", "source range", "connection", "translation", "local endpoint", "policy", "ipcache", "neighbour", "map",
	"program", "listener", "pod socket", "rules", "probe",
}

// Things lists everything that State knows of, by kind and name. Counters and times of last use are left out.
func (s *State) Things() []Thing {
	var list []Thing
	add := func(kind, name string, fields ...Field) {
		list = append(list, Thing{kind, name, slices.DeleteFunc(fields, func(f Field) bool { return f.Value == "" })})
	}
	s.kubeThings(add)
	s.Agent.things(add)
	s.mapThings(add)
	s.hostThings(add)
	slices.SortStableFunc(list, Thing.Compare)
	return list
}

// Compare is the order of things: by kind, then by name, numbers in names by their value.
func (t Thing) Compare(other Thing) int {
	return cmp.Or(cmp.Compare(slices.Index(thingKinds, t.Kind), slices.Index(thingKinds, other.Kind)), natural(t.Name, other.Name))
}

// natural compares texts with the numbers in them by value, so that 10.42.0.9 is before 10.42.0.38.
func natural(a, b string) int {
	for a != "" && b != "" {
		n, m := digits(a), digits(b)
		if n > 0 && m > 0 {
			x, y := strings.TrimLeft(a[:n], "0"), strings.TrimLeft(b[:m], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[n:], b[m:]
			continue
		}
		if c := cmp.Compare(a[0], b[0]); c != 0 {
			return c
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits the text starts with.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// adder takes one thing; fields without a value are left out.
type adder func(kind, name string, fields ...Field)
