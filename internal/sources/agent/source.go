package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"golang.org/x/sync/errgroup"
)

// DefaultSocket is where the agent listens.
const DefaultSocket = "/var/run/cilium/cilium.sock"

const (
	defaultInterval = time.Second
	// batchWindow is how long the changes of a stream are gathered into one event; maxBatch ends it early.
	batchWindow = 5 * time.Millisecond
	maxBatch    = 500
)

// Config of the source. Its zero value reads the default socket once a second.
type Config struct {
	// Socket is a path or unix:///path; empty is DefaultSocket.
	Socket string
	// Interval between polls of status, endpoints and services; 0 is one second. Where the tables' changes are
	// streamed, services are read at every change and, as the status, at every fifth interval. The configuration is
	// read every ten seconds.
	Interval time.Duration
	// Logger may be nil.
	Logger *slog.Logger
	// Triggers are fired when a frontend, a backend, a service or an endpoint changed.
	Triggers []sources.Trigger
}

// Source reads one agent.
type Source struct {
	cfg Config
	log *slog.Logger
	// following: the streams of all tables are open.
	following atomic.Bool
}

// Following says that every change of the load balancer's tables fires the triggers now. It may be called at any
// time.
func (s *Source) Following() bool { return s.following.Load() }

var _ sources.Source = (*Source)(nil)

// New returns a source that has touched nothing yet.
func New(cfg Config) *Source {
	if cfg.Socket == "" {
		cfg.Socket = DefaultSocket
	}
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{cfg: cfg, log: log.With("source", "agent")}
}

// Name is "agent".
func (s *Source) Name() string { return "agent" }

// Run emits everything the agent has, of each kind complete, then what changes. It returns an *events.Trouble when
// the agent goes.
func (s *Source) Run(ctx context.Context, emit events.Emit, ready func()) error {
	c := newClient(s.cfg.Socket)
	defer c.close()
	err := s.run(ctx, c, emit, ready)
	if ctx.Err() != nil {
		return nil
	}
	return c.trouble(err)
}

// run returns nil or any error when ctx ended.
func (s *Source) run(ctx context.Context, c *client, emit events.Emit, ready func()) error {
	p := newPoller(c, s.cfg.Interval, s.cfg.Triggers)
	first, err := p.snapshot(ctx)
	if err != nil {
		return err
	}
	streams, tables, err := s.openTables(ctx, c)
	if err != nil {
		return err
	}
	defer closeAll(streams)
	p.streamed = len(streams) == len(newTables())
	if err := emit(ctx, append(first, tables...)...); err != nil {
		return err
	}
	ready()
	s.following.Store(p.streamed)
	defer s.following.Store(false)

	g, gctx := errgroup.WithContext(ctx)
	m := &merger{emit: emit, reread: p.reread, triggers: s.cfg.Triggers, polled: make(chan *eventpb.Event), changes: make(chan change, maxBatch)}
	for t, body := range streams {
		g.Go(func() error { return follow(gctx, t, body, m.changes) })
		// The read of a body ends only when the body is closed.
		g.Go(func() error { <-gctx.Done(); return body.Close() })
	}
	g.Go(func() error { return p.run(gctx, m.polled) })
	g.Go(func() error { return m.run(gctx) })
	err = g.Wait()
	// What came before a break is not lost with it.
	return errors.Join(err, m.drain(ctx))
}

// openTables opens the streams that the agent has, and returns the tables' first rows as events.
func (s *Source) openTables(ctx context.Context, c *client) (map[*table]io.ReadCloser, []*eventpb.Event, error) {
	streams := make(map[*table]io.ReadCloser)
	var out []*eventpb.Event
	for _, t := range newTables() {
		body, rows, err := c.openTable(ctx, t)
		if errors.Is(err, errNoStream) {
			s.log.Warn("the agent streams no changes of a table, so services are known by polling only", "table", t.name)
			continue
		}
		if err != nil {
			closeAll(streams)
			return nil, nil, err
		}
		streams[t] = body
		all, err := t.snapshot(rows)
		if err != nil {
			closeAll(streams)
			return nil, nil, err
		}
		out = append(out, events.New(all))
	}
	return streams, out, nil
}

func closeAll(streams map[*table]io.ReadCloser) {
	for _, body := range streams {
		body.Close()
	}
}
