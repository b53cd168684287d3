package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	fieldSeq   = 1 // of TapeRecord
	fieldEvent = 2
	fieldSeen  = 5 // seen_ns of Event
)

// sprawls says that an event would take hundreds of times its size in memory.
func sprawls(event []byte) bool {
	return len(event) > 2*maxParts && events.Sprawls(event, (*eventpb.Event)(nil).ProtoReflect().Descriptor(), maxParts)
}

// appendRecord encodes a TapeRecord behind its length. By hand, so that the bytes are the same in every build.
func appendRecord(b []byte, r Record) []byte {
	n := protowire.SizeTag(fieldSeq) + protowire.SizeVarint(r.Seq) +
		protowire.SizeTag(fieldEvent) + protowire.SizeBytes(len(r.Data))
	b = binary.AppendUvarint(b, uint64(n))
	b = protowire.AppendTag(b, fieldSeq, protowire.VarintType)
	b = protowire.AppendVarint(b, r.Seq)
	b = protowire.AppendTag(b, fieldEvent, protowire.BytesType)
	return protowire.AppendBytes(b, r.Data)
}

var (
	errRecord  = errors.New("malformed record")
	errSprawls = fmt.Errorf("an event of more than %d parts", maxParts)
)

// maxParts is how many parts an event can have when it is as large as one can be, and each has no more than eight bytes:
// what is read has more, also of those who fill logs or labels on purpose.
const maxParts = MaxEvent / 8

// cutRecord takes the first record off b. Its data is a part of b.
func cutRecord(b []byte) (r Record, rest []byte, err error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return r, nil, errRecord
	}
	msg, rest := b[k:k+int(n)], b[k+int(n):]
	for len(msg) > 0 {
		num, typ, k := protowire.ConsumeTag(msg)
		if k < 0 {
			return r, nil, errRecord
		}
		msg = msg[k:]
		switch {
		case num == fieldSeq && typ == protowire.VarintType:
			r.Seq, k = protowire.ConsumeVarint(msg)
		case num == fieldEvent && typ == protowire.BytesType:
			r.Data, k = protowire.ConsumeBytes(msg)
		default:
			k = protowire.ConsumeFieldValue(num, typ, msg)
		}
		if k < 0 {
			return r, nil, errRecord
		}
		msg = msg[k:]
	}
	return r, rest, nil
}

// eachRecord calls fn for the records of a frame; positions must ascend, from first on and not past last.
func eachRecord(frame []byte, first, last uint64, fn func(Record) error) error {
	for least := first; len(frame) > 0; {
		r, rest, err := cutRecord(frame)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if r.Seq < least || r.Seq > last {
			return fmt.Errorf("%w: position %d where one of %d to %d belongs", ErrDamaged, r.Seq, least, last)
		}
		if sprawls(r.Data) {
			return fmt.Errorf("%w: position %d: %w", ErrDamaged, r.Seq, errSprawls)
		}
		least, frame = r.Seq+1, rest
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

// seenNs finds when an event was seen, without decoding it; 0 when it does not say.
func seenNs(event []byte) int64 {
	for len(event) > 0 {
		num, typ, k := protowire.ConsumeTag(event)
		if k < 0 {
			return 0
		}
		event = event[k:]
		if num == fieldSeen && typ == protowire.VarintType {
			v, k := protowire.ConsumeVarint(event)
			if k < 0 {
				return 0
			}
			return int64(v)
		}
		if k = protowire.ConsumeFieldValue(num, typ, event); k < 0 {
			return 0
		}
		event = event[k:]
	}
	return 0
}
