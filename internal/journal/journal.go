package journal

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// DefaultMaxBytes bounds a session's store where Options say nothing. At the bound the oldest events are retired.
const DefaultMaxBytes = 16 << 30

// Options are a journal's settings; the zero value is usable.
type Options struct {
	Sync    time.Duration // between syncs to disk; 0 syncs before each acknowledgement ("always")
	Session string        // of a new session; "" makes one up from the time
	Node    string
	// What is kept at most; the oldest goes first. 0 is what the session was begun with, DefaultMaxBytes and any
	// age for a new one.
	MaxBytes int64
	MaxAge   time.Duration
	Logger   *slog.Logger // nil discards
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Journal is one session's folder, open for writing and reading. Its methods may be called at the same time.
type Journal struct {
	dir, session, node string
	run                string // when this run began, base 36: makes ids differ from those of earlier runs
	identity           string
	o                  Options
	lock               *os.File

	mu       sync.Mutex // of emitters
	emitters map[string]*emitter

	queue   chan *request
	closing chan struct{} // nothing more is taken
	stopped chan struct{} // the writer is gone
	abort   context.CancelFunc
	tail    tail
	once    sync.Once
}

// Open opens the session in dir, or begins one. An *events.Trouble that wraps ErrLocked names the process that
// has it open.
func Open(dir string, o Options) (*Journal, error) {
	o = o.withDefaults()
	if err := makeFolder(dir); err != nil {
		return nil, fmt.Errorf("make session folder: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		dir: dir, node: o.Node, o: o, lock: lock,
		run:      strconv.FormatInt(time.Now().UnixNano(), 36),
		emitters: map[string]*emitter{},
		queue:    make(chan *request, windowItems),
		closing:  make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	if err := j.start(); err != nil {
		unlock(lock)
		return nil, err
	}
	return j, nil
}

func (j *Journal) start() error {
	var err error
	if j.session, err = sessionID(j.dir, j.o.Session); err != nil {
		return err
	}
	empty, oldest, err := removeEmptyBlocks(j.dir)
	if err != nil {
		return err
	}
	s, err := openStore(j.dir, j.session, j.o)
	if err != nil {
		return err
	}
	info, err := s.info(context.Background())
	if err != nil {
		s.close()
		return err
	}
	j.identity = j.session + "-" + strconv.FormatInt(info.Created.UnixNano(), 36)
	last := info.State.LastSeq
	j.tail = tail{now: tailState{store: s, last: last}, changed: make(chan struct{})}
	w := j.newWriter(s, last)
	if len(empty) > 0 {
		w.sayEmptyBlocks(empty, info, oldest)
	}
	ctx, abort := context.WithCancel(context.Background())
	j.abort = abort
	go func() {
		defer close(j.stopped)
		w.loop(ctx)
	}()
	return nil
}

func (j *Journal) newWriter(s *store, last uint64) *writer {
	return &writer{
		stream: s, base: last, queue: j.queue, closing: j.closing, log: j.o.Logger,
		clock:    newClock(systemClock()),
		tryDisk:  func() error { return tryDisk(j.dir) },
		reopen:   j.reopen,
		gap:      j.gap,
		stored:   func(recs []Record) { j.tail.update(func(t *tailState) { t.add(recs) }) },
		troubled: func(err error) { j.tail.update(func(t *tailState) { t.trouble = err }) },
		regressed: func(last uint64) {
			j.tail.update(func(t *tailState) { t.last, t.recent, t.regressions = last, nil, t.regressions+1 })
		},
	}
}

// reopen stops the server and starts it again, once the disk takes writes: until then what is stored can be read.
func (j *Journal) reopen() (stream, error) {
	if err := tryDisk(j.dir); err != nil {
		return nil, err
	}
	now, _ := j.tail.look()
	if now.store != nil {
		j.tail.update(func(t *tailState) { t.store = nil })
		now.store.close()
	}
	s, err := openStore(j.dir, j.session, j.o)
	if err != nil {
		return nil, err
	}
	j.tail.update(func(t *tailState) { t.store = s })
	return s, nil
}

// gap makes an event of the journal's own, numbered like those of a source. It ends now and is the
// journal's fault where g does not say otherwise. Only the writer calls it.
func (j *Journal) gap(again bool, g *eventpb.Gap) item {
	e := j.emitter("journal")
	if !again {
		e.n++
	}
	g.ToNs = cmp.Or(g.ToNs, time.Now().UnixNano())
	g.Reason = cmp.Or(g.Reason, eventpb.GapReason_GAP_REASON_JOURNAL)
	g.Detail = strings.ToValidUTF8(g.Detail, "\ufffd") // else it could not be encoded
	ev := events.New(g)
	e.fill(ev, e.n)
	data, _ := proto.Marshal(ev)
	return item{id: ev.Id, subject: subject(j.session, j.node, "journal", "gap"), data: data}
}

// Session is the session's id.
func (j *Journal) Session() string { return j.session }

// Identity is the session's id and the moment its stream was made. A reader that kept a position starts over when
// this is another: the positions are then of a stream that is gone.
func (j *Journal) Identity() string { return j.identity }

// Trouble is why events cannot be stored now; nil while they can.
func (j *Journal) Trouble() error {
	now, _ := j.tail.look()
	return now.trouble
}

// Bounds returns the first and last position that are stored; last < first when there is none. While the first is
// not to be had, as after a write error, last stands beside the error.
func (j *Journal) Bounds() (first, last uint64, err error) {
	now, _ := j.tail.look()
	switch {
	case now.closed:
		return 0, 0, ErrClosed
	case now.store == nil:
		return 0, now.last, errRestarting
	}
	info, err := now.store.info(context.Background())
	if err != nil {
		return 0, now.last, err
	}
	return max(info.State.FirstSeq, 1), now.last, nil
}

// Close stops taking events, stores those it has, and gives the folder back. When ctx ends before they could be
// stored, their emitters get ErrClosed. The store is closed whole either way.
func (j *Journal) Close(ctx context.Context) error {
	var err error
	j.once.Do(func() { err = j.close(ctx) })
	return err
}

func (j *Journal) close(ctx context.Context) error {
	close(j.closing)
	var err error
	select {
	case <-j.stopped:
	case <-ctx.Done():
		err = fmt.Errorf("close journal: events left: %w", ctx.Err())
	}
	j.abort()
	<-j.stopped
	now, _ := j.tail.look()
	j.tail.update(func(t *tailState) { t.closed, t.store = true, nil })
	if now.store != nil {
		now.store.close()
	}
	if uerr := unlock(j.lock); err == nil && uerr != nil {
		err = fmt.Errorf("unlock session folder: %w", uerr)
	}
	return err
}
