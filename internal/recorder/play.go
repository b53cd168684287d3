package recorder

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

// play stores a tape's events in the journal at the tape's pace times o.Speed, as if they were seen now. It
// ends with the tape.
func play(ctx context.Context, o Options, j *journal.Journal) error {
	tape, err := journal.OpenTape(o.FromTape)
	if err != nil {
		return err
	}
	defer tape.Close()
	var started time.Time
	var firstNs int64
	var batch []*eventpb.Event
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := j.Append(ctx, batch...)
		batch = nil
		return err
	}
	err = tape.Read(ctx, 0, ^uint64(0), func(r journal.Record) error {
		e := &eventpb.Event{}
		if err := proto.Unmarshal(r.Data, e); err != nil {
			return err
		}
		if started.IsZero() {
			started, firstNs = time.Now(), e.SeenNs
		}
		at := started.Add(time.Duration(float64(e.SeenNs-firstNs) / o.Speed))
		if wait := time.Until(at); wait > 0 {
			if err := flush(); err != nil {
				return err
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		batch = append(batch, e)
		if len(batch) == 64 {
			return flush()
		}
		return nil
	})
	if err != nil && ctx.Err() != nil {
		return nil // told to stop in the middle
	}
	if err = errors.Join(err, flush()); err != nil {
		return err
	}
	return tape.Torn() // what is whole was played
}

// checkTape opens the tape and closes it, before anything is touched.
func checkTape(path string) error {
	tape, err := journal.OpenTape(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &events.Trouble{Thing: "tape " + path, Cause: fs.ErrNotExist, Mend: "name a tape made by `recorder pack`"}
	}
	if err != nil {
		return err
	}
	return tape.Close()
}
