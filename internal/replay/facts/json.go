package facts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"
)

// stampFormat has nine digits always, so that times sort as text.
const stampFormat = "2006-01-02T15:04:05.000000000Z07:00"

// Stamp shows Unix nanoseconds as RFC 3339 in UTC, with all digits.
func Stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(stampFormat) }

// JSON is the fact as one object, without a line's end. Members without a value are left out. A flow's line is read
// by `hubble observe --input-file`, which passes over what it does not know.
func (f *Fact) JSON() ([]byte, error) {
	list := []member{
		{"seq", f.Seq}, {"n", f.N}, {"seen", Stamp(f.SeenNs)}, {"time", Stamp(f.WhenNs())}, {"node_name", cmp.Or(f.flowNode, f.Node)},
		{"source", f.Source}, {"kind", f.Kind},
	}
	if f.Type != "" {
		list = append(list, member{"type", f.Type})
	}
	if f.Op != Told {
		list = append(list, member{"op", f.Op})
	}
	return appendObject(nil, append(list, f.body.members()...))
}

// Data is what is in the fact itself, as one JSON object.
func (f *Fact) Data() (json.RawMessage, error) { return appendObject(nil, f.body.members()) }

func appendObject(b []byte, list []member) ([]byte, error) {
	b = append(b, '{')
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := encode(m.name)
		if err != nil {
			return nil, err
		}
		value, err := encode(m.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// object is a JSON object with its members in order.
type object []member

func (o object) MarshalJSON() ([]byte, error) { return appendObject(nil, o) }

// encode leaves <, > and & as they are: this is for people and programs, not for web pages.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// foreign is JSON from elsewhere, as it was; what is no JSON becomes a string.
func foreign(b []byte) any {
	if json.Valid(b) {
		return json.RawMessage(b)
	}
	return string(b)
}
