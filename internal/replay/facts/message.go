package facts

import (
	"encoding/base64"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// messageOf is a message of ours as JSON: fields by their names in the schema and in its order, numbers as numbers,
// enums by name without their type's prefix. What is not set is left out. protojson writes 64-bit numbers as strings,
// and not the same bytes in every build.
func messageOf(m proto.Message) object { return fieldsOf(m.ProtoReflect()) }

// wallTimes are the fields that hold a wall clock's time, shown as such and named without the unit.
var wallTimes = []protoreflect.Name{"created_ns", "from_ns", "to_ns", "wall_ns"}

func fieldsOf(m protoreflect.Message) object {
	o := object{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			continue
		}
		name, value := string(f.Name()), fieldValue(f, m.Get(f))
		if slices.Contains(wallTimes, f.Name()) {
			name, value = strings.TrimSuffix(name, "_ns"), Stamp(m.Get(f).Int())
		}
		o = append(o, member{name, value})
	}
	return o
}

func fieldValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		out := map[string]any{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			out[k.String()] = scalar(f.MapValue(), v)
			return true
		})
		return out
	case f.IsList():
		out := make([]any, v.List().Len())
		for i := range out {
			out[i] = scalar(f, v.List().Get(i))
		}
		return out
	}
	return scalar(f, v)
}

func scalar(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return fieldsOf(v.Message())
	case protoreflect.EnumKind:
		return enumName(f.Enum(), v.Enum())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	}
	return v.Interface()
}

// enumName is a value's name in lower case, without what all names of the enum begin with; its number where this
// version knows no name.
func enumName(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) any {
	v := d.Values().ByNumber(n)
	if v == nil {
		return int32(n)
	}
	zero := string(d.Values().ByNumber(0).Name())
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), strings.TrimSuffix(zero, "UNSPECIFIED")))
}

func nameOf(e protoreflect.Enum) string {
	if s, ok := enumName(e.Descriptor(), e.Number()).(string); ok {
		return s
	}
	return "unknown"
}
