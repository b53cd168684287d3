package kube

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// Config says where the cluster is and which node is ours. Its zero value finds both.
type Config struct {
	Kubeconfig string            // "" = see Connect
	Node       string            // "" = the only node, or the one named as this host
	Logger     *slog.Logger      // nil = none
	Triggers   []sources.Trigger // fired as soon as a Service, EndpointSlice or Pod changes
}

// Source watches the API server. It is the sources.Cluster of the others too: what it emitted last.
type Source struct {
	*index
	config   Config
	log      *slog.Logger
	patience time.Duration
}

var (
	_ sources.Source  = (*Source)(nil)
	_ sources.Cluster = (*Source)(nil)
	_ sources.Synced  = (*Source)(nil)
)

// New returns a source that has not connected yet.
func New(config Config) *Source {
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{index: newIndex(), config: config, log: log, patience: 5 * time.Second}
}

// Name is "kube".
func (s *Source) Name() string { return "kube" }

// Run lists every kind, emits the lists and then each change. It returns an *events.Trouble when the API server
// cannot be reached or refuses; the next Run starts from complete lists.
func (s *Source) Run(parent context.Context, emit events.Emit, ready func()) error {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	c, err := s.connect(ctx)
	if err != nil {
		if parent.Err() != nil {
			return nil
		}
		return err
	}
	defer c.close()

	changes := make(chan change, 256)
	var wg sync.WaitGroup
	list := c.resources()
	for _, r := range list {
		f := &follower{resource: r, server: c.server, patience: s.patience, log: s.log.With("kind", r.name), out: changes, fail: fail}
		wg.Go(func() { f.run(ctx) })
	}
	b := &batcher{in: changes, emit: emit, index: s.index, triggers: s.config.Triggers, waiting: len(list), ready: ready}
	err = b.run(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	fail(err)
	wg.Wait()
	if parent.Err() != nil {
		return nil
	}
	return err
}

// connect finds the cluster and this node in it.
func (s *Source) connect(ctx context.Context) (*clients, error) {
	config, err := Connect(s.config.Kubeconfig)
	if err != nil {
		return nil, err
	}
	c, err := newClients(config)
	if err != nil {
		return nil, err
	}
	if err := c.findNode(ctx, s.config.Node); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}
