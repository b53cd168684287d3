package replay

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// Diff is what is different between two moments: fields of files, and the things beneath them.
type Diff struct {
	From   Point    `json:"from"`
	To     Point    `json:"to"`
	Files  []Change `json:"files"`
	Things []Change `json:"things"`

	fromState, toState *projections.State
}

// Point is a moment of a session as it is printed.
type Point struct {
	Time string `json:"time"` // RFC 3339, UTC
	Seq  uint64 `json:"seq"`
}

// Change is one thing that came, went or changed.
type Change struct {
	Kind   string        `json:"kind"` // file, slot, backend, connection, endpoint …
	Name   string        `json:"name"`
	Op     string        `json:"op"` // added, removed, changed
	Fields []FieldChange `json:"fields"`
}

// FieldChange is one field before and after; null where there is none.
type FieldChange struct {
	Field string  `json:"field"`
	From  *string `json:"from"`
	To    *string `json:"to"`
}

// Empty says that there is no difference.
func (d *Diff) Empty() bool { return len(d.Files) == 0 && len(d.Things) == 0 }

// Compare finds what is different between two states. The position and the counters that session.json shows are
// different at any two moments and are left out.
func Compare(from, to *projections.State) *Diff {
	return &Diff{
		From:   Point{millis(from.SeenNs), from.Seq},
		To:     Point{millis(to.SeenNs), to.Seq},
		Files:  CompareFiles(from.Files(), to.Files()),
		Things: changes(from.Things(), to.Things()), fromState: from, toState: to,
	}
}

// CompareFiles finds which fields of which files are different.
func CompareFiles(from, to []projections.File) []Change {
	return changes(fileThings(from), fileThings(to))
}

// changes are the differences of two lists, in the order of things.
func changes(from, to []projections.Thing) []Change {
	type key struct{ kind, name string }
	before, after := map[key]projections.Thing{}, map[key]projections.Thing{}
	for _, t := range from {
		before[key{t.Kind, t.Name}] = t
	}
	all := slices.Clone(from)
	for _, t := range to {
		k := key{t.Kind, t.Name}
		if _, had := before[k]; !had {
			all = append(all, t)
		}
		after[k] = t
	}
	slices.SortStableFunc(all, projections.Thing.Compare)
	list := []Change{}
	for _, t := range all {
		k := key{t.Kind, t.Name}
		old, had := before[k]
		now, has := after[k]
		c := Change{t.Kind, t.Name, "changed", fieldChanges(old.Fields, now.Fields)}
		switch {
		case !had:
			c.Op = "added"
		case !has:
			c.Op = "removed"
		case len(c.Fields) == 0:
			continue
		}
		list = append(list, c)
	}
	return list
}

// fieldChanges are the fields that are different, those of before first.
func fieldChanges(from, to []projections.Field) []FieldChange {
	list := []FieldChange{}
	value := func(fields []projections.Field, name string) *string {
		for i := range fields {
			if fields[i].Name == name {
				return &fields[i].Value
			}
		}
		return nil
	}
	for _, f := range from {
		now := value(to, f.Name)
		if now == nil || *now != f.Value {
			list = append(list, FieldChange{f.Name, &f.Value, now})
		}
	}
	for _, f := range to {
		if value(from, f.Name) == nil {
			list = append(list, FieldChange{f.Name, nil, &f.Value})
		}
	}
	return list
}

// fileThings takes files apart into their fields. Of session.json only each file's status and each source's state
// are taken: the rest is different at any two moments.
func fileThings(files []projections.File) []projections.Thing {
	var list []projections.Thing
	for _, f := range files {
		t := projections.Thing{Kind: "file", Name: f.Name}
		switch {
		case f.Data == nil:
			continue
		case f.Name == "session.json":
			t.Fields = sessionFields(f.Data)
		case strings.HasSuffix(f.Name, ".json"):
			t.Fields = jsonFields(f.Data)
		default:
			for line := range strings.Lines(string(f.Data)) {
				name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				t.Fields = append(t.Fields, projections.Field{Name: name, Value: value})
			}
		}
		list = append(list, t)
	}
	return list
}

// jsonFields are the fields of an object in the file's order; a list is its elements with commas between them. Lists of
// objects are left out: what they are made of is compared as things, each by its name.
func jsonFields(data []byte) []projections.Field {
	var fields []projections.Field
	d := json.NewDecoder(bytes.NewReader(data))
	_, _ = d.Token() // the opening brace
	for d.More() {
		name, err := d.Token()
		if err != nil {
			break
		}
		var value any
		d.UseNumber()
		if d.Decode(&value) != nil {
			break
		}
		if ofObjects(value) {
			continue
		}
		text, _ := name.(string)
		fields = append(fields, projections.Field{Name: text, Value: valueText(value)})
	}
	return fields
}

func ofObjects(value any) bool {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	_, ok = list[0].(map[string]any)
	return ok
}

func valueText(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return v
	case []any:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = valueText(v[i])
		}
		if len(v) == 0 {
			return "none"
		}
		return strings.Join(texts, ", ")
	}
	b, _ := json.Marshal(value)
	return string(b)
}

func sessionFields(data []byte) []projections.Field {
	var v struct {
		Files []struct {
			File, Status string
			WaitsFor     []string `json:"waits_for"`
		}
		Sources []struct {
			Source, Status string
			Error          string
		}
	}
	if json.Unmarshal(data, &v) != nil {
		return nil
	}
	var fields []projections.Field
	for _, f := range v.Files {
		text := f.Status
		if len(f.WaitsFor) > 0 {
			text += ": " + strings.Join(f.WaitsFor, ", ")
		}
		fields = append(fields, projections.Field{Name: f.File, Value: text})
	}
	for _, src := range v.Sources {
		text := src.Status
		if src.Error != "" {
			text += ": " + src.Error
		}
		fields = append(fields, projections.Field{Name: "source " + src.Source, Value: text})
	}
	return fields
}
