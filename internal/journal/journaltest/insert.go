package journaltest

import (
	"context"
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

// Insert copies a tape with more events: behind each position, by the old count, one of the bpfmap source with those changes
// of maps, seen when the event before it was. Keyframes are left out.
func Insert(ctx context.Context, in, out string, behind map[uint64][]*eventpb.MapDelta) error {
	tape, err := journal.OpenTape(in)
	if err != nil {
		return err
	}
	defer tape.Close()
	header := proto.Clone(tape.Header()).(*eventpb.TapeHeader)
	header.LastSeq += uint64(len(behind))
	return journal.WriteTapeFile(out, header, func(w *journal.TapeWriter) error {
		shift := uint64(0)
		return tape.Read(ctx, 0, 0, func(r journal.Record) error {
			if err := w.Write(journal.Record{Seq: r.Seq + shift, Data: r.Data}); err != nil || behind[r.Seq] == nil {
				return err
			}
			data, err := inserted(r, behind[r.Seq])
			if err != nil {
				return err
			}
			shift++
			return w.Write(journal.Record{Seq: r.Seq + shift, Data: data})
		})
	})
}

func inserted(r journal.Record, deltas []*eventpb.MapDelta) ([]byte, error) {
	e := &eventpb.Event{}
	if err := proto.Unmarshal(r.Data, e); err != nil {
		return nil, fmt.Errorf("decode event at seq %d: %w", r.Seq, err)
	}
	e.Id, e.Source, e.SourceSeq = fmt.Sprint("inserted-", r.Seq), "bpfmap", 0
	e.Body = &eventpb.Event_Maps{Maps: &eventpb.MapDeltas{Maps: deltas}}
	return proto.Marshal(e)
}
