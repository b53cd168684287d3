package probe

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"k8s.io/client-go/rest"
)

// defaultInterval is how often a Service that does not change is asked.
const defaultInterval = 30 * time.Second

// Config says what to ask. Cluster and Profile are needed; Rest is for the request inside a pod.
type Config struct {
	Rest     *rest.Config
	Cluster  sources.Cluster
	Profile  *profile.Profile
	Node     string        // "" = the only node, or the one named as this host
	Interval time.Duration // 0 = 30 s
	Logger   *slog.Logger  // nil = none
}

// Source makes the profile's requests.
type Source struct {
	config Config
	log    *slog.Logger
}

var _ sources.Source = (*Source)(nil)

// New returns a source that has asked nothing yet.
func New(config Config) *Source {
	if config.Interval <= 0 {
		config.Interval = defaultInterval
	}
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{config: config, log: log}
}

// Name is "probe".
func (s *Source) Name() string { return "probe" }

// Run asks until ctx ends. It calls ready when each subject has been asked once or is not there.
func (s *Source) Run(ctx context.Context, emit events.Emit, ready func()) error {
	if sources.WaitSynced(ctx, s.config.Cluster) != nil {
		return nil
	}
	return s.run(ctx, emit, ready, s.probes())
}

func (s *Source) run(parent context.Context, emit events.Emit, ready func(), probes []probe) error {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	var first, all sync.WaitGroup
	for _, p := range probes {
		first.Add(1)
		r := &prober{
			probe: p, cluster: s.config.Cluster, interval: s.config.Interval, emit: emit,
			log: s.log.With("probe", p.name), evaluated: sync.OnceFunc(first.Done),
		}
		all.Go(func() {
			defer r.evaluated()
			if err := r.run(ctx); err != nil {
				fail(err)
			}
		})
	}
	first.Wait()
	if ctx.Err() == nil {
		ready()
	}
	all.Wait()
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

func (s *Source) probes() []probe {
	p := s.config.Profile
	t := targets{cluster: s.config.Cluster, profile: p, node: s.config.Node}
	return []probe{
		{name: "nodeport", subject: t.nodePort, request: httpRequest, settled: answered},
		{name: "ghost", subject: t.ghost, request: newCurl(s.config.Rest, p.Ghost.TimeoutSeconds).request, settled: answeredOrRefused},
	}
}
