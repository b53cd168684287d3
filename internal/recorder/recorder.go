// Package recorder puts the parts together: sources into the journal, the journal into State, State into files.
package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"golang.org/x/sync/errgroup"
)

// Version is the tool's version, set when it is released.
var Version = "dev"

// Self is the name under which the recorder records its own facts.
const Self = "recorder"

// Options are those of `recorder run`.
type Options struct {
	Profile     *profile.Profile // nil: no lab files
	ProfileText string
	Out         string
	Session     string
	Sync        time.Duration // 0: after every batch
	Aim         Aim
	FromTape    string
	Speed       float64
	Listen      Listen
	Redact      []*regexp.Regexp // what log lines are not to keep, besides podlog.BuiltIn
	MaxBytes    int64            // of the session's store; 0: as it was begun, journal.DefaultMaxBytes for a new one
	MaxAge      time.Duration    // of its events; 0: as it was begun, any age for a new one
	Keyframes   int              // fold so much between keyframes, in bytes of flows; 0 chooses
	Log         *slog.Logger
	Shown       func([]projections.File, *projections.State) // after each render; may be nil
}

// Run records until ctx ends, or plays a tape to its end. On return the journal is closed and the output folder
// shows its last position.
func Run(ctx context.Context, o Options) (err error) {
	node := ""
	if o.FromTape == "" {
		node = o.Aim.resolveNode(ctx, o.Log)
	} else if err := checkTape(o.FromTape); err != nil {
		return err
	}
	j, err := journal.Open(o.Session, journal.Options{Sync: o.Sync, Node: node, MaxBytes: o.MaxBytes, MaxAge: o.MaxAge, Logger: o.Log})
	if err != nil {
		return err
	}
	// The journal outlives ctx: sources still say that they stopped.
	open := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, j.Close(open)) }()

	keys := keyframesOf(o.Session, j, o.Log)
	past, err := recall(ctx, j, keys)
	if err != nil {
		return fmt.Errorf("read the session's journal: %w", err)
	}
	if past.state.Seq > 0 {
		o.Log.Info("going on with a session", "session", j.Session(), "events", past.state.Seq)
		for _, f := range past.state.Findings() {
			if f.Lasts() {
				tellFinding(o.Log, f)
			}
		}
	}
	// Only now: what an earlier run left in the folder goes.
	folder, err := projections.OpenFolder(o.Out)
	if err != nil {
		return &events.Trouble{Thing: "output folder " + o.Out, Cause: err, Mend: "name another with --out"}
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	o.Log.Info("recording", "session", o.Session, "out", o.Out)
	l := &live{journal: j, state: past.state, folder: folder, log: o.Log, shown: o.Shown, renderer: projections.NewRenderer(), keys: newKeeper(keys, past.state, o.Keyframes)}
	var s *server
	if o.Listen.Address != "" {
		l.board = newBoard()
		if s, err = listen(o, l.board, j); err != nil {
			return err
		}
	}
	return work(ctx, open, o, past, l, s)
}

// work runs the sources (or the tape), the fold, the control socket and the server, if there is one, together.
func work(ctx, open context.Context, o Options, past *past, l *live, s *server) error {
	j := l.journal
	feed := func(ctx context.Context) error { return play(ctx, o, j) }
	if o.FromTape == "" {
		start, list := past.start(o)
		ticks := make(chan struct{}, 1)
		l.tick = ticks
		feed = func(ctx context.Context) error {
			if err := j.Emitter(Self)(open, start...); err != nil {
				return err
			}
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return tick(ctx, ticks, j.Emitter(Self)) })
			g.Go(func() error { sources.Supervise(ctx, o.Log, j.Emitter, list); return nil })
			return g.Wait()
		}
	}
	c := &control{emit: j.Emitter(Self), pack: packer(j, l.keys.keyframes), log: o.Log}
	g, ctx := errgroup.WithContext(ctx)
	aside, stopAside := context.WithCancel(ctx)
	g.Go(func() error { return c.serve(aside, o.Session) })
	if s != nil {
		g.Go(func() error { return s.run(aside, o.Log) })
	}
	stopAt := make(chan uint64, 1)
	g.Go(func() error {
		defer stopAside()
		err := feed(ctx)
		_, last, bounds := j.Bounds()
		stopAt <- last
		return errors.Join(err, bounds)
	})
	g.Go(func() error { return l.run(open, stopAt) })
	return g.Wait()
}
