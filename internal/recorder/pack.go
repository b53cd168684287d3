package recorder

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// Pack writes the session in dir to a new file: through its recorder while that runs, else from its journal. An
// existing file is evidence, and is replaced only when replace is true.
func Pack(ctx context.Context, dir, file string, replace bool) error {
	if err := checkTarget(file, replace); err != nil {
		return err
	}
	return journal.WriteAtomic(file, func(w io.Writer) error { return PackTo(ctx, dir, w) })
}

func checkTarget(file string, replace bool) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return &events.Trouble{Thing: "folder " + filepath.Dir(file), Cause: events.Cause(err), Mend: "make it, or name another file"}
		}
		return nil
	case err != nil:
		return &events.Trouble{Thing: "file " + file, Cause: events.Cause(err), Mend: "name another"}
	case !info.Mode().IsRegular():
		return &events.Trouble{Thing: file, Cause: errors.New("not a file"), Mend: "name one, or - for standard output"}
	case !replace:
		return &events.Trouble{Thing: "file " + file, Cause: fs.ErrExist, Mend: "name another, or give --force to replace it"}
	}
	return nil
}

// PackTo writes the session in dir as a tape to w.
func PackTo(ctx context.Context, dir string, w io.Writer) error {
	if err := journal.CheckSession(dir); err != nil {
		return &events.Trouble{Thing: dir, Cause: err, Mend: "name a session's folder, as given to `recorder run --session`"}
	}
	err := call(ctx, dir, "GET", "/tape", nil, w)
	if !errors.Is(err, errNotRunning) {
		return err
	}
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		return err
	}
	keys := keyframesOf(dir, j, nil)
	return errors.Join(packer(j, keys)(ctx, w), j.Close(context.WithoutCancel(ctx)))
}

// packer writes the journal as it is now.
func packer(j *journal.Journal, keys keyframes) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		first, last, err := j.Bounds()
		if err != nil {
			return err
		}
		header, err := tapeHeader(ctx, j, first, last)
		if err != nil {
			return err
		}
		tape, err := journal.NewTapeWriter(w, header)
		if err != nil {
			return err
		}
		p := NewPacker(tape)
		if first > 1 {
			// The beginning is retired. Without a keyframe the tape has the events only.
			p.Resume(keys.oldest(ctx, first-1))
		}
		if err := j.Read(ctx, first, last, p.Write); err != nil {
			return err
		}
		if err := p.Finish(); err != nil {
			return err
		}
		return tape.Close()
	}
}

// tapeHeader tells what the tape holds, from its events alone: the same journal makes the same tape.
func tapeHeader(ctx context.Context, j *journal.Journal, first, last uint64) (*eventpb.TapeHeader, error) {
	h := &eventpb.TapeHeader{ToolVersion: Version, SessionId: j.Session(), FirstSeq: first, LastSeq: last}
	err := j.Read(ctx, first, last, func(r journal.Record) error {
		e, err := projections.Decode(r.Data)
		if err != nil {
			return err
		}
		if h.FirstNs == 0 {
			h.FirstNs, h.Node = e.SeenNs, e.Node
		}
		h.LastNs = e.SeenNs
		if b := e.GetSessionStart(); b != nil {
			describe(h, b)
		}
		return nil
	})
	h.CreatedNs = h.LastNs
	if h.Redaction == "" {
		h.Redaction = keptOut
	}
	return h, err
}

func describe(h *eventpb.TapeHeader, b *eventpb.Session) {
	h.Kernel, h.BootId, h.Sync = b.Kernel, b.BootId, b.Sync
	h.Redaction = policies(h.Redaction, b.Redaction)
	h.Clocks = &eventpb.TapeClocks{WallNs: b.WallNs, BoottimeNs: b.BoottimeNs, MonotonicNs: b.MonotonicNs, UserHz: b.UserHz}
	h.Sources = nil
	for _, name := range b.Sources {
		h.Sources = append(h.Sources, &eventpb.TapeSource{Name: name})
	}
}
