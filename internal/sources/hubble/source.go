package hubble

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"

	observerpb "github.com/cilium/cilium/api/v1/observer"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// DefaultAddress is the agent's observer.
const DefaultAddress = "unix:///var/run/cilium/hubble.sock"

// Config of the source. Its zero value follows the agent's observer from the ring's oldest flow.
type Config struct {
	// Address is a socket's path, unix:///path or host:port; empty is DefaultAddress.
	Address string
	// TLS is for host:port; nil is plain text.
	TLS *tls.Config
	// Resume is what is recorded already.
	Resume Cursor
	// Logger may be nil.
	Logger *slog.Logger
	// Triggers are fired when flows show new connections, at most every 100 ms.
	Triggers []sources.Trigger
}

// Source follows one observer.
type Source struct {
	cfg    Config
	peer   peer
	log    *slog.Logger
	cursor Cursor // of what was emitted; a second Run resumes there
}

var _ sources.Source = (*Source)(nil)

// New returns a source that has touched nothing yet.
func New(cfg Config) *Source {
	if cfg.Address == "" {
		cfg.Address = DefaultAddress
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{cfg: cfg, peer: parsePeer(cfg.Address, cfg.TLS), log: log.With("source", "hubble"), cursor: cfg.Resume.clone()}
}

// Name is "hubble".
func (s *Source) Name() string { return "hubble" }

// Run emits what the observer's ring has (after the cursor), calls ready when that is stored, and follows. It
// returns an *events.Trouble when the observer goes or ends the stream.
func (s *Source) Run(ctx context.Context, emit events.Emit, ready func()) error {
	err := s.run(ctx, emit, ready)
	if ctx.Err() != nil {
		return nil
	}
	return s.peer.trouble(err)
}

// run returns nil or any error when ctx ended.
func (s *Source) run(ctx context.Context, emit events.Emit, ready func()) error {
	conn, about, err := s.peer.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.log.Info("following flows", "address", s.peer.address, "version", about.GetVersion(), "flows", about.GetNumFlows(), "ring", about.GetMaxFlows())

	g, gctx := errgroup.WithContext(ctx)
	client := observerpb.NewObserverClient(conn)
	f := newFollower(emit, ready, &s.cursor, about.GetNumFlows(), s.cfg.Triggers, s.log)
	flowsSince, agentSince := f.since()
	g.Go(func() error {
		stream, err := client.GetFlows(gctx, &observerpb.GetFlowsRequest{Follow: true, Since: flowsSince})
		if err != nil {
			return err
		}
		return receive(gctx, stream.Recv, f.flows)
	})
	g.Go(func() error {
		stream, err := client.GetAgentEvents(gctx, &observerpb.GetAgentEventsRequest{Follow: true, Since: agentSince})
		if err == nil {
			err = receive(gctx, stream.Recv, f.agent)
		}
		if status.Code(err) == codes.Unimplemented {
			s.log.Warn("this observer has no agent events (a relay has none), so flows alone are recorded")
			return nil
		}
		return err
	})
	g.Go(func() error { return f.run(gctx) })
	err = g.Wait()
	// What came before a break is not lost with it.
	return errors.Join(err, f.drain(ctx))
}

// receive hands over what a stream brings, until it ends or ctx does. The reader that lags stops the stream, and
// the observer then counts what its ring lost.
func receive[T any](ctx context.Context, next func() (T, error), out chan<- T) error {
	for {
		m, err := next()
		if errors.Is(err, io.EOF) {
			return errEnded
		}
		if err != nil {
			return err
		}
		select {
		case out <- m:
		case <-ctx.Done():
			return nil
		}
	}
}
