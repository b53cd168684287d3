package podlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// PodRef names a pod. Whatever pod has the name is followed, also one that is made anew.
type PodRef struct{ Namespace, Name string }

// Config says which logs to follow. Rest and Cluster are needed.
type Config struct {
	Rest    *rest.Config
	Cluster sources.Cluster
	Pods    []PodRef
	// Resume returns the stamp, Unix nanoseconds, of the last line that is recorded of a container, and 0 for none.
	// It may be nil: then logs are read from their beginning.
	Resume func(containerID string) int64
	Redact []*regexp.Regexp // what lines are not to keep, besides what BuiltIn names
	Logger *slog.Logger     // nil = none
}

// Source follows logs.
type Source struct {
	config   Config
	log      *slog.Logger
	patience time.Duration // how long a log may be unreadable before the source counts as down
	books    *books
}

var _ sources.Source = (*Source)(nil)

// New returns a source that has not connected yet.
func New(config Config) *Source {
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{config: config, log: log, patience: 5 * time.Second, books: newBooks(config.Resume)}
}

// Name is "podlog".
func (s *Source) Name() string { return "podlog" }

// Run reads what the logs of the pods have, calls ready, and follows them and those that come.
func (s *Source) Run(parent context.Context, emit events.Emit, ready func()) error {
	client, done, err := s.connect()
	if err != nil {
		return err
	}
	defer done()
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	if sources.WaitSynced(ctx, s.config.Cluster) != nil {
		return nil
	}
	// An event that is refused ends the run: else it would count as a log that cannot be read.
	store := func(ctx context.Context, list ...*eventpb.Event) error {
		err := emit(ctx, list...)
		if err != nil {
			fail(err)
		}
		return err
	}
	f := &followers{
		source: s, client: client, emit: store, fail: fail, running: make(map[chainKey]bool),
	}
	f.run(ctx, ready)
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

func (s *Source) connect() (*corev1.CoreV1Client, func(), error) {
	if s.config.Rest == nil {
		return nil, nil, &events.Trouble{
			Thing: "pod logs", Cause: errors.New("no cluster is known"), Mend: "name a kubeconfig with --kubeconfig",
		}
	}
	h, err := rest.HTTPClientFor(s.config.Rest)
	if err != nil {
		return nil, nil, fmt.Errorf("make HTTP client: %w", err)
	}
	client, err := corev1.NewForConfigAndClient(s.config.Rest, h)
	if err != nil {
		return nil, nil, fmt.Errorf("make core client: %w", err)
	}
	return client, func() { utilnet.CloseIdleConnectionsFor(h.Transport) }, nil
}
