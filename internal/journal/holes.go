package journal

import (
	"context"
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The stream numbers its messages without a hole. So one between two positions, or in front of the last, is what the
// server found damaged on the disk and steps over. A reader is given a gap in its place, made of what is stored
// around it, so that every reader gets the same.

// fillHoles puts a gap where positions are missing from next on, or hold what is no event: among recs, or up to limit
// where there are none. It returns the position after them, too.
func (j *Journal) fillHoles(ctx context.Context, s *store, next, limit uint64, recs []Record) ([]Record, uint64, error) {
	info, err := s.info(ctx)
	if err != nil {
		return nil, next, err
	}
	if n := len(recs); n > 0 {
		limit = recs[n-1].Seq
	}
	next = max(next, info.State.FirstSeq) // older ones were retired, which is no damage
	before, err := s.seenAt(ctx, next-1)
	if err != nil {
		return nil, next, err
	}
	var filled []Record
	for _, r := range recs {
		if !isEvent(r.Data) {
			continue
		}
		seen := seenNs(r.Data)
		if r.Seq > next {
			filled = append(filled, j.hole(next, r.Seq-1, before, seen))
		}
		filled, next, before = append(filled, r), r.Seq+1, seen
	}
	if next <= limit {
		filled, next = append(filled, j.hole(next, limit, before, before)), limit+1
	}
	return filled, next, nil
}

// whole tells whether recs are the events from next on, without a hole.
func whole(recs []Record, next uint64) bool {
	for i, r := range recs {
		if r.Seq != next+uint64(i) || !isEvent(r.Data) {
			return false
		}
	}
	return len(recs) > 0
}

// isEvent looks at the envelope alone. The server's checksum does not cover where a message's header ends: a bit
// flipped there moves bytes between header and data.
func isEvent(data []byte) bool {
	seen := 0 // fields of the envelope, a bit for each
	for len(data) > 0 {
		num, typ, k := protowire.ConsumeTag(data)
		if k < 0 {
			return false
		}
		if num < fieldBody {
			if typ != envelopeType(num) || seen&(1<<num) != 0 {
				return false
			}
			seen |= 1 << num
		}
		data = data[k:]
		if k = protowire.ConsumeFieldValue(num, typ, data); k < 0 {
			return false
		}
		data = data[k:]
	}
	return true
}

const (
	fieldSourceSeq = 4 // of events.v1.Event: from here to time_ns numbers, the rest is text
	fieldTime      = 6
	fieldBody      = 16 // the first
)

func envelopeType(num protowire.Number) protowire.Type {
	if num >= fieldSourceSeq && num <= fieldTime {
		return protowire.VarintType
	}
	return protowire.BytesType
}

// hole is a gap that stands for the positions first to last, between two moments; the first may be unknown, 0.
func (j *Journal) hole(first, last uint64, fromNs, toNs int64) Record {
	if fromNs == 0 {
		fromNs = toNs
	}
	ev := events.New(&eventpb.Gap{
		FromNs: fromNs, ToNs: toNs, Count: last - first + 1, Reason: eventpb.GapReason_GAP_REASON_JOURNAL,
		Detail: fmt.Sprintf("positions %d to %d of the journal are damaged on the disk", first, last),
	})
	ev.Id = fmt.Sprintf("%s-journal-damaged-%d", j.session, first)
	ev.Node, ev.Source, ev.Session, ev.SeenNs = j.node, "journal", j.session, toNs
	data, _ := proto.Marshal(ev)
	return Record{Seq: first, Data: data}
}

// seenAt is when the event at a position was seen; 0 when it is not to be had.
func (s *store) seenAt(ctx context.Context, seq uint64) (int64, error) {
	if seq == 0 {
		return 0, nil
	}
	recs, err := s.fetch(ctx, seq, seq)
	if err != nil || len(recs) == 0 {
		return 0, err
	}
	return seenNs(recs[0].Data), nil
}
