package kube

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// absentPause is how often a type that the cluster does not have is looked for again.
const absentPause = 30 * time.Second

// follower keeps one kind listed and watched.
type follower struct {
	resource
	server   string
	patience time.Duration
	log      *slog.Logger
	out      chan<- change
	fail     context.CancelCauseFunc
}

// run follows until ctx ends. A type that is not there counts as an empty list, and is looked for again.
func (f *follower) run(ctx context.Context) {
	l := &link{patience: f.patience}
	s := &store{ctx: ctx, res: f.resource, link: l, out: f.out, known: make(map[key]*eventpb.KubeObject)}
	said := false
	for ctx.Err() == nil {
		absent := f.reflect(ctx, s)
		if !absent {
			continue
		}
		if !said {
			f.log.Info("the cluster has no such type; none are recorded until it does")
			said = true
		}
		if !s.listed || len(s.known) > 0 {
			_ = s.Replace(nil, "")
		}
		select {
		case <-ctx.Done():
		case <-time.After(absentPause):
		}
	}
}

// reflect runs a reflector until ctx ends, or returns true when the server says that the type does not exist.
func (f *follower) reflect(ctx context.Context, s *store) (absent bool) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// What it would log we say ourselves, once, in answered and in gaps.
	logger := logr.Discard()
	r := cache.NewReflectorWithOptions(&requests{follower: f, ctx: ctx, link: s.link, stop: stop}, nil, s, cache.ReflectorOptions{
		Logger: &logger, Name: "kube", TypeDescription: f.name,
		// Short pauses: the server is asked by one recorder per node, and each pause is a gap.
		Backoff: &wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 20, Cap: 2 * time.Second},
	})
	r.RunWithContext(klog.NewContext(ctx, logger))
	return errors.Is(context.Cause(ctx), errAbsent)
}

var errAbsent = errors.New("no such type")

// requests is what the reflector asks through. It notes how the requests fare.
type requests struct {
	*follower
	ctx  context.Context // the reflector lists with a context that never ends
	link *link
	stop context.CancelCauseFunc
}

var _ cache.ListerWatcherWithContext = (*requests)(nil)

func (q *requests) ListWithContext(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion = "" // "0" may be served from a cache that is behind
	}
	ctx, cancel := context.WithTimeout(q.ctx, listTimeout)
	defer cancel()
	list, err := q.list(ctx, o)
	q.answered(err)
	return list, err
}

func (q *requests) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	opened := time.Now()
	w, err := q.watch(ctx, o)
	q.answered(err)
	if err != nil {
		return nil, err
	}
	return &openWatch{Interface: w, link: q.link, opened: opened}, nil
}

func (q *requests) List(o metav1.ListOptions) (runtime.Object, error) {
	return q.ListWithContext(q.ctx, o)
}

func (q *requests) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return q.WatchWithContext(q.ctx, o)
}

// IsWatchListSemanticsUnSupported keeps to a list and then a watch: a streamed list retries without an end, and
// does not stop with its context.
func (q *requests) IsWatchListSemanticsUnSupported() bool { return true }

func (q *requests) answered(err error) {
	if err != nil && q.ctx.Err() != nil {
		return
	}
	if q.optional && apierrors.IsNotFound(err) {
		q.stop(errAbsent)
		return
	}
	if err != nil {
		q.log.Debug("request failed", "error", err)
	}
	if q.link.answered(err) {
		q.fail(trouble(q.server, q.name, err))
	}
}
