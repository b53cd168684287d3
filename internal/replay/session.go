// Package replay reads recorded sessions: their State at any moment, from a tape or a session's folder, without a
// cluster.
package replay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
	"google.golang.org/protobuf/proto"
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
	st := projections.NewState()
	err = s.Tape.Read(ctx, 0, seq, func(r journal.Record) error { return st.ApplyRecord(r.Seq, r.Data) })
	return st, err
}

// seq is the position of the last event at or before the moment.
func (s *Session) seq(ctx context.Context, m Moment) (uint64, error) {
	h := s.Tape.Header()
	outside := func(what string) error {
		return fmt.Errorf("moment %s is %s: the session is from %s (seq:%d) to %s (seq:%d)", m, what, clock(h.FirstNs), h.FirstSeq, clock(h.LastNs), h.LastSeq)
	}
	var ns int64
	switch m.kind {
	case atEnd:
		return h.LastSeq, nil
	case atSeq:
		switch {
		case m.seq < h.FirstSeq:
			return 0, outside("before its start")
		case m.seq > h.LastSeq:
			return 0, outside("after its end")
		}
		return m.seq, nil
	case atMark:
		return s.mark(ctx, m)
	case atTime:
		ns = m.at.UnixNano()
	case afterStart:
		ns = h.FirstNs + m.by.Nanoseconds()
	case beforeEnd:
		ns = h.LastNs - m.by.Nanoseconds()
	}
	switch {
	case ns < h.FirstNs:
		return 0, outside("before its start")
	case ns > h.LastNs:
		return 0, outside("after its end")
	}
	return s.Tape.SeqAt(ns)
}

// mark is the position of the last mark with that text.
func (s *Session) mark(ctx context.Context, m Moment) (uint64, error) {
	var found uint64
	var texts []string
	err := s.Tape.Read(ctx, 0, ^uint64(0), func(r journal.Record) error {
		e := &eventpb.Event{}
		if err := proto.Unmarshal(r.Data, e); err != nil {
			return err
		}
		if b := e.GetMark(); b != nil {
			texts = append(texts, b.Text)
			if b.Text == m.mark {
				found = r.Seq
			}
		}
		return nil
	})
	if err == nil && found == 0 {
		err = fmt.Errorf("mark %q is not in the session, which has the marks %q", m.mark, texts)
	}
	return found, err
}
