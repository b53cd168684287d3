// Package replay reads recorded sessions: their State at any moment, from a tape or a session's folder, without a
// cluster.
package replay

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
)

// Session is a recorded session, open for reading.
type Session struct {
	Tape *journal.Tape
	temp *os.File // a tape that was packed to be read; it has no name, so it goes with the process
}

// Open opens a tape, or packs the session of a folder, running or stopped, and opens that.
func Open(ctx context.Context, path string) (*Session, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &events.Trouble{Thing: "tape " + path, Cause: events.Cause(err), Mend: "name a tape made by `recorder pack`, or a session's folder"}
	}
	if info.IsDir() {
		return openFolder(ctx, path)
	}
	tape, err := journal.OpenTape(path)
	if err != nil {
		return nil, err
	}
	return &Session{Tape: tape}, nil
}

func openFolder(ctx context.Context, dir string) (*Session, error) {
	f, err := os.CreateTemp("", "tapedeck-*.tape")
	if err != nil {
		return nil, err
	}
	s := &Session{temp: f}
	err = errors.Join(os.Remove(f.Name()), recorder.PackTo(ctx, dir, f))
	if err == nil {
		var size int64
		if size, err = f.Seek(0, io.SeekCurrent); err == nil {
			s.Tape, err = journal.ReadTape(f, size, dir)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the tape.
func (s *Session) Close() {
	if s.Tape != nil {
		_ = s.Tape.Close()
	}
	if s.temp != nil {
		_ = s.temp.Close()
	}
}

// State folds the session up to a moment: all events seen until then.
func (s *Session) State(ctx context.Context, m Moment) (*projections.State, error) {
	seq, err := s.seq(ctx, m)
	if err != nil {
		return nil, err
	}
	st, err := s.nearest(seq)
	if err != nil {
		return nil, err
	}
	err = s.Tape.Read(ctx, st.Seq+1, seq, func(r journal.Record) error { return st.ApplyRecord(r.Seq, r.Data) })
	return st, err
}
