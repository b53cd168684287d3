package podlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// firstPause and longPause bound the wait after a stream that ended or a request that failed.
	firstPause = 250 * time.Millisecond
	longPause  = 2 * time.Second
	// previousTail is how many lines are read of an instance that was over before anybody looked.
	previousTail = 200
)

// chain reads the logs of one container's instances, one after the other.
type chain struct {
	*followers
	ref      PodRef
	key      chainKey
	log      *slog.Logger
	caughtUp func() // all that was there at the start is emitted

	failing time.Time // first of the failures in a row
	pause   time.Duration
	last    wanted // the instance that was read last, if any
	lastNs  int64  // and the stamp of its last line
	redact  *redactor
}

// run goes on until the pod is gone or ctx ends.
func (c *chain) run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := c.source.config.Cluster.Changed()
		o := c.pod(c.ref)
		if o == nil || o.Uid != c.key.podUID {
			return
		}
		list := plan(o)
		if gap := c.skipped(list); gap != nil && c.emit(ctx, events.New(gap)) != nil {
			return
		}
		w, ok := c.pick(list)
		if !ok {
			c.caughtUp()
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		err := c.read(ctx, w)
		c.last, c.lastNs = w, c.source.books.of(w.id).last
		if ctx.Err() != nil {
			return
		}
		if c.settle(ctx, w, err) {
			continue
		}
		select {
		case <-changed:
		case <-time.After(c.pause):
		case <-ctx.Done():
		}
	}
}

// pick returns the first instance whose log is not emitted to its end.
func (c *chain) pick(list []wanted) (wanted, bool) {
	for _, w := range list {
		if w.container == c.key.container && !c.source.books.isEnded(w.id) {
			return w, true
		}
	}
	return wanted{}, false
}

// skipped tells of instances that ended unread: the one that was followed when it is neither the container's
// current nor its previous one any more, and those that came and went behind it.
func (c *chain) skipped(list []wanted) *eventpb.Gap {
	if c.last.id == "" {
		return nil
	}
	ended := c.source.books.isEnded(c.last.id)
	for _, w := range list {
		if w.container != c.key.container {
			continue
		}
		// The first one is the oldest that can be read.
		if w.id == c.last.id || ended && w.restarts <= c.last.restarts+1 {
			return nil
		}
		gap := c.gap("it restarted more often than its logs are kept")
		c.last = wanted{}
		return gap
	}
	return nil
}

// gap starts at the last line that was read.
func (c *chain) gap(why string) *eventpb.Gap {
	return &eventpb.Gap{
		FromNs: c.lastNs, ToNs: time.Now().UnixNano(), Reason: eventpb.GapReason_GAP_REASON_ROTATED,
		Detail: fmt.Sprintf("log of %s/%s, container %s: %s", c.ref.Namespace, c.ref.Name, c.key.container, why),
	}
}

// settle judges how a read went and sets the pause. It returns true when the next one can start at once.
func (c *chain) settle(ctx context.Context, w wanted, err error) bool {
	switch {
	case err == nil:
		c.failing, c.pause = time.Time{}, firstPause
		if !w.running {
			c.source.books.end(w.id)
			return true
		}
		return false // a followed log came to its end: the pod will tell why
	case w.previous && (apierrors.IsNotFound(err) || apierrors.IsBadRequest(err)):
		c.log.Debug("the log of the instance before is gone", "id", w.id, "error", err)
		if c.lastNs != 0 {
			_ = c.emit(ctx, events.New(c.gap("the end of an instance's log is gone")))
		}
		c.source.books.end(w.id)
		return true
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err), errors.Is(err, errOther):
		// The pod or container is not that far, or farther: an answer, and the pod will tell.
		c.failing, c.pause = time.Time{}, firstPause
		c.caughtUp()
		return false
	case c.failing.IsZero():
		c.failing = time.Now()
	}
	c.log.Debug("log request failed", "id", w.id, "error", err)
	c.pause = min(max(2*c.pause, firstPause), longPause)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || time.Since(c.failing) >= c.source.patience {
		c.fail(trouble(c.ref, err))
	}
	return false
}

// read emits what is new of an instance's log; of a running one it then follows until the stream ends.
func (c *chain) read(ctx context.Context, w wanted) error {
	known := c.source.books.of(w.id)
	if c.redact == nil || w.id != c.last.id {
		c.redact = newRedactor(c.source.config.Redact)
	}
	r := &reading{wanted: w, known: known, emit: c.emit, redact: c.redact}
	o := logOptions(w, known)
	if err := c.stream(ctx, o, r); err != nil || !w.running {
		return err
	}
	c.caughtUp()
	o = logOptions(w, known)
	o.Follow = true
	return c.stream(ctx, o, r)
}

// errOther says that the container has another instance by now, whose log must not be taken for this one's.
var errOther = errors.New("another instance runs")

// verify asks the API server whether a stream that was just opened is the instance's: log requests name a
// container, not its ID, and the cluster's objects may be behind.
func (c *chain) verify(ctx context.Context, w wanted) error {
	pod, err := c.client.Pods(w.namespace).Get(ctx, w.pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if string(pod.UID) != w.podUID {
		return errOther
	}
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if s.Name != w.container {
			continue
		}
		id := s.ContainerID
		if t := s.LastTerminationState.Terminated; w.previous && t != nil {
			id = t.ContainerID
		}
		if id != w.id {
			return errOther
		}
	}
	return nil
}

// trouble says what keeps a log from being read.
func trouble(ref PodRef, err error) error {
	t := &events.Trouble{Thing: "log of pod " + ref.Namespace + "/" + ref.Name, Cause: err, Mend: "look whether the API server and the kubelet are up"}
	switch {
	case apierrors.IsForbidden(err):
		t.Mend = "grant this user get on pods and pods/log"
	case apierrors.IsUnauthorized(err):
		t.Mend = "renew the credentials in the kubeconfig"
	}
	return t
}

// ended is what a stream's end means: nothing for one that was read to its end.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
