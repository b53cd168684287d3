package export

import "google.golang.org/protobuf/encoding/protowire"

// pbuf writes a protobuf message field by field, in the order of the calls: the same calls give the same bytes, which
// protobuf's own marshalling does not promise.
type pbuf []byte

func (b *pbuf) uint(field protowire.Number, v uint64) {
	*b = protowire.AppendTag(*b, field, protowire.VarintType)
	*b = protowire.AppendVarint(*b, v)
}

func (b *pbuf) text(field protowire.Number, s string) {
	*b = protowire.AppendTag(*b, field, protowire.BytesType)
	*b = protowire.AppendString(*b, s)
}

func (b *pbuf) message(field protowire.Number, m pbuf) {
	*b = protowire.AppendTag(*b, field, protowire.BytesType)
	*b = protowire.AppendBytes(*b, m)
}
