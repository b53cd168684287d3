// Package replay reads recorded sessions: their State at any moment, from a tape or a session's folder, without a
// cluster.
package replay

import (
	"context"
	"os"
	"path/filepath"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
)

// Session is a recorded session, open for reading.
type Session struct {
	Tape *journal.Tape
	temp string // folder of a tape that was packed to be read
}

// Open opens a tape, or packs the session of a folder, running or stopped, and opens that.
func Open(ctx context.Context, path string) (*Session, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &events.Trouble{Thing: "tape " + path, Cause: err, Mend: "name a tape made by `recorder pack`, or a session's folder"}
	}
	s := &Session{}
	if info.IsDir() {
		if s.temp, err = os.MkdirTemp("", "tapedeck-replay-"); err != nil {
			return nil, err
		}
		tape := filepath.Join(s.temp, "session.tape")
		if err := recorder.Pack(ctx, path, tape); err != nil {
			s.Close()
			return nil, err
		}
		path = tape
	}
	if s.Tape, err = journal.OpenTape(path); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the tape and removes what was packed for it.
func (s *Session) Close() {
	if s.Tape != nil {
		_ = s.Tape.Close()
	}
	if s.temp != "" {
		_ = os.RemoveAll(s.temp)
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
