package events

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Sprawls says that a message has more parts than limit: messages within it, and items of lists, however deep. A part may
// have two bytes and take a hundred times as much memory once it is decoded, so bytes from elsewhere are looked at before.
// What is no message does not sprawl; to decode it is an error.
func Sprawls(message []byte, of protoreflect.MessageDescriptor, limit int) bool {
	c := counter{left: limit}
	c.count(message, of)
	return c.left < 0
}

type counter struct{ left int }

func (c *counter) count(b []byte, of protoreflect.MessageDescriptor) {
	fields := of.Fields()
	for len(b) > 0 && c.left >= 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return
		}
		if f := fields.ByNumber(number); f != nil && kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(b)
			switch {
			case f.Message() != nil:
				c.left--
				c.count(inner, f.Message())
			case f.IsList() && (f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind):
				c.left--
			}
		}
		b = b[n:]
	}
}
