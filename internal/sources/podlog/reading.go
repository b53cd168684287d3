package podlog

import (
	"context"
	"fmt"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// window is how long a line waits for others to share its event.
	window = 20 * time.Millisecond
	// batchSize bounds an event's text in bytes.
	batchSize = 256 << 10
)

func logOptions(w wanted, known *seen) *corev1.PodLogOptions {
	o := &corev1.PodLogOptions{Container: w.container, Timestamps: true, Previous: w.previous}
	if at, ok := known.since(); ok {
		o.SinceTime = &metav1.Time{Time: at}
	} else if w.previous {
		n := int64(previousTail)
		o.TailLines = &n
	}
	return o
}

// reading is one instance's log on its way into events.
type reading struct {
	wanted
	known  *seen
	emit   events.Emit
	redact *redactor

	lines []*eventpb.LogLine // the batch
	size  int
}

type item struct {
	line  *eventpb.LogLine
	whole bool
	err   error
}

// stream reads one answer of the log endpoint to its end. It returns nil when the server ended it.
func (c *chain) stream(ctx context.Context, o *corev1.PodLogOptions, r *reading) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := c.client.Pods(r.namespace).GetLogs(r.pod, o).Stream(ctx)
	if err != nil {
		return err
	}
	if err := c.verify(ctx, r.wanted); err != nil {
		body.Close()
		return err
	}
	items := make(chan item, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := newSplitter(body, r.redact)
		for {
			line, whole, err := s.next()
			select {
			case items <- item{line, whole, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	err = r.collect(ctx, items, !o.Follow && !r.running)
	cancel()
	body.Close()
	<-done
	return err
}

// collect emits the new lines in batches until the stream's error comes. The part of a line in front of that is
// kept only when it is all there will be.
func (r *reading) collect(ctx context.Context, items <-chan item, final bool) error {
	again := r.known.replay()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-due:
			due = nil
			if err := r.flush(ctx); err != nil {
				return err
			}
		case i := <-items:
			if i.line != nil && (i.whole || final && ended(i.err) == nil) && !again.old(i.line.TimeNs) {
				if err := r.add(ctx, i.line, again); err != nil {
					return err
				}
				if due == nil {
					due = time.After(window)
				}
			}
			if i.err != nil {
				if err := r.flush(ctx); err != nil {
					return err
				}
				return ended(i.err)
			}
		}
	}
}

// add puts a line into the batch. In front of the first new line it tells what may be missing.
func (r *reading) add(ctx context.Context, line *eventpb.LogLine, again *replay) error {
	if again.lost() {
		again.found = true
		gap := events.New(&eventpb.Gap{
			FromNs: again.last, ToNs: line.TimeNs, Reason: eventpb.GapReason_GAP_REASON_ROTATED,
			Detail: fmt.Sprintf("log of %s/%s, container %s: the last line recorded is no longer in it", r.namespace, r.pod, r.container),
		})
		if err := r.emit(ctx, gap); err != nil {
			return err
		}
	}
	r.lines = append(r.lines, line)
	r.size += len(line.Text) + 16
	if r.size >= batchSize {
		return r.flush(ctx)
	}
	return nil
}

func (r *reading) flush(ctx context.Context) error {
	if len(r.lines) == 0 {
		return nil
	}
	e := events.New(&eventpb.LogLines{
		Namespace: r.namespace, Pod: r.pod, PodUid: r.podUID, Container: r.container, ContainerId: r.id, Lines: r.lines,
	})
	e.TimeNs = r.lines[len(r.lines)-1].TimeNs
	if err := r.emit(ctx, e); err != nil {
		return err
	}
	for _, l := range r.lines {
		r.known.note(l.TimeNs)
	}
	r.lines, r.size = nil, 0
	return nil
}
