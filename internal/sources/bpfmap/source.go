package bpfmap

import (
	"context"
	"log/slog"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Config says where the maps are and how they are polled. The zero Config is usable.
type Config struct {
	BPFFS  string       // the BPF file system; /sys/fs/bpf when empty
	Logger *slog.Logger // nil: no logging
	// Trigger asks for a poll at once. Polls that follow on each other too fast are put off.
	Trigger sources.Trigger
	// Traffic asks for a poll of the maps of connections alone.
	Traffic sources.Trigger
	// Followed says that every change of the services is told with Trigger now, so that polling them seldom is
	// enough; nil is never.
	Followed func() bool
	// Clock is the clock of the CT maps as far as it is known now; nil is ktime, Cilium's default.
	Clock func() cilium.Clock

	// The shortest time between polls; 0 is the default in brackets. Maps whose reading takes long are polled less
	// often than that.
	Services    time.Duration // services, backends and rev-NAT (50 ms)
	Connections time.Duration // CT and socket rev-NAT (1 s)
	Pins        time.Duration // the folder of the pins (1 s)
}

// Source is the bpfmap source.
type Source struct {
	Config
	log *slog.Logger
}

var _ sources.Source = (*Source)(nil)

// New makes the source; it opens nothing.
func New(c Config) *Source {
	if c.BPFFS == "" {
		c.BPFFS = defaultBPFFS
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{Config: c, log: c.Logger}
}

// Name is "bpfmap".
func (s *Source) Name() string { return "bpfmap" }

// Run polls the maps until ctx ends. It fails with a Trouble when there is no BPF file system, when no Cilium maps
// are pinned in it, or when they must not be opened.
func (s *Source) Run(ctx context.Context, emit events.Emit, ready func()) error {
	if err := mounted(s.BPFFS); err != nil {
		return err
	}
	services, rest := s.lanes(emit)
	defer services.close()
	defer rest.close()
	err := s.watch(ctx, ready, services, rest)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watch takes the first snapshot lane by lane, then lets each go its own pace.
func (s *Source) watch(ctx context.Context, ready func(), lanes ...*lane) error {
	for _, l := range lanes {
		if err := l.round(ctx); err != nil {
			return err
		}
	}
	ready()
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range lanes {
		g.Go(func() error { return l.run(ctx) })
	}
	return g.Wait()
}

func (s *Source) lanes(emit events.Emit) (services, rest *lane) {
	rest = s.lane(emit, func(k cilium.Kind) bool { return !together(k) })
	rest.trigger, rest.traffic = sources.NewTrigger(), s.Traffic
	services = s.lane(emit, together)
	services.trigger, services.next, services.followed = s.Trigger, rest.trigger, s.Followed
	return services, rest
}

func (s *Source) lane(emit events.Emit, wants func(cilium.Kind) bool) *lane {
	l := &lane{
		bpffs: s.BPFFS, wants: wants, paces: s.pace, ktime: s.ktime, emit: emit, log: s.log,
		tables: map[string]*table{}, scan: schedule{pace: scanPace},
	}
	if s.Pins > 0 {
		l.scan.min = s.Pins
	}
	return l
}

func (s *Source) pace(k cilium.Kind) pace {
	p := paceOf(k)
	switch {
	case together(k):
		p = servicesPace
		p.min = orDefault(s.Services, p.min)
	case p == connectionPace:
		p.min = orDefault(s.Connections, p.min)
	}
	p.max = max(p.min, p.max)
	return p
}

func orDefault(d, byDefault time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return byDefault
}

// ktime is the time now as the CT maps write it.
func (s *Source) ktime() uint32 {
	var clock cilium.Clock
	if s.Clock != nil {
		clock = s.Clock()
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0 // no lifetime has passed then
	}
	return clock.Stamp(time.Duration(now.Nano()))
}
