package journal

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// emitter numbers the events of one source. It lives as long as the journal is open, so that a source that is
// started again goes on counting.
type emitter struct {
	j      *Journal
	source string
	turn   chan struct{} // held while events are numbered and handed over: numbers are in the order of the queue
	n      uint64
}

// Emitter returns how a source hands over its events. Beside the context's error it returns ErrClosed and
// ErrTooBig; an event whose wait was cut short may be stored all the same. Events must not be changed after.
func (j *Journal) Emitter(source string) events.Emit {
	return j.emitter(source).emit
}

func (j *Journal) emitter(source string) *emitter {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.emitters[source]
	if e == nil {
		e = &emitter{j: j, source: source, turn: make(chan struct{}, 1)}
		j.emitters[source] = e
	}
	return e
}

func (e *emitter) emit(ctx context.Context, evs ...*eventpb.Event) error {
	if len(evs) == 0 {
		return nil
	}
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	r, err := e.handOver(ctx, evs)
	<-e.turn
	if err != nil {
		return err
	}
	return e.j.wait(ctx, r)
}

// handOver numbers the events and queues them; numbers are used up only by what was queued.
func (e *emitter) handOver(ctx context.Context, evs []*eventpb.Event) (*request, error) {
	items := make([]item, len(evs))
	for i, ev := range evs {
		e.fill(ev, e.n+uint64(i)+1)
		var err error
		if items[i], err = e.j.item(ev); err != nil {
			return nil, err
		}
	}
	r, err := e.j.queueUp(ctx, items)
	if err == nil {
		e.n += uint64(len(evs))
	}
	return r, err
}

// fill makes the id from place and order, not from chance: a publish that is repeated has the same one.
func (e *emitter) fill(ev *eventpb.Event, n uint64) {
	ev.Id = e.j.node + "-" + e.source + "-" + e.j.run + "-" + strconv.FormatUint(n, 10)
	ev.Node, ev.Source, ev.SourceSeq, ev.Session = e.j.node, e.source, n, e.j.session
	if ev.SeenNs == 0 {
		ev.SeenNs = time.Now().UnixNano()
	}
}

// Append stores whole events as they are: ids, times and sources are kept. It returns when they are stored.
func (j *Journal) Append(ctx context.Context, evs ...*eventpb.Event) error {
	if len(evs) == 0 {
		return nil
	}
	items := make([]item, len(evs))
	for i, ev := range evs {
		var err error
		if items[i], err = j.item(ev); err != nil {
			return err
		}
	}
	r, err := j.queueUp(ctx, items)
	if err != nil {
		return err
	}
	return j.wait(ctx, r)
}

func (j *Journal) item(ev *eventpb.Event) (item, error) {
	data, err := proto.Marshal(ev)
	if err != nil {
		return item{}, fmt.Errorf("encode event %s: %w", ev.Id, err)
	}
	if len(data) > MaxEvent {
		return item{}, fmt.Errorf("%w: %s of %s has %d bytes, %d are allowed",
			ErrTooBig, events.KindOf(ev), ev.Source, len(data), MaxEvent)
	}
	if sprawls(data) { // nor could it be read
		return item{}, fmt.Errorf("%w: %s of %s: %w", ErrTooBig, events.KindOf(ev), ev.Source, errSprawls)
	}
	return item{id: ev.Id, subject: subject(j.session, ev.Node, ev.Source, events.KindOf(ev)), data: data}, nil
}
