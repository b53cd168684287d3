package agent

import (
	"context"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// merger is the one that emits: polled events, and the rows of the streams gathered into events.
type merger struct {
	emit     events.Emit
	reread   sources.Trigger
	triggers []sources.Trigger
	polled   chan *eventpb.Event
	changes  chan change

	batch []*eventpb.Event
	size  int
}

// run emits until ctx ends. Triggers are fired before the event is stored: a map is to be read at once.
func (m *merger) run(ctx context.Context) error {
	window := time.NewTimer(time.Hour)
	defer window.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-m.polled:
			m.batch = append(m.batch, e)
			if err := m.flush(ctx); err != nil {
				return err
			}
		case ch := <-m.changes:
			if len(m.batch) == 0 {
				window.Reset(batchWindow)
			}
			if err := m.take(ch); err != nil {
				return err
			}
			if m.size < maxBatch {
				continue
			}
			if err := m.flush(ctx); err != nil {
				return err
			}
		case <-window.C:
			if err := m.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// drain emits what the streams brought before they broke. It is for the time after run.
func (m *merger) drain(ctx context.Context) error {
	for {
		select {
		case ch := <-m.changes:
			if err := m.take(ch); err != nil {
				return err
			}
		default:
			return m.flush(ctx)
		}
	}
}

// take puts a row that says something new into the batch.
func (m *merger) take(ch change) error {
	o, err := ch.table.apply(&ch.row)
	if err != nil || o == nil {
		return err
	}
	fire(m.triggers)
	m.reread.Fire()
	m.add(ch, o)
	return nil
}

// add keeps the order of arrival: a row of another table begins another event. One row may be in it twice, as
// Pending and as Done.
func (m *merger) add(ch change, o *eventpb.AgentObject) {
	m.size++
	if n := len(m.batch); n > 0 {
		if last := m.batch[n-1].GetAgent(); last.GetKind() == ch.table.kind {
			last.Objects = append(last.Objects, o)
			return
		}
	}
	e := events.New(&eventpb.AgentObjects{Kind: ch.table.kind, Objects: []*eventpb.AgentObject{o}})
	e.SeenNs = ch.at.UnixNano()
	m.batch = append(m.batch, e)
}

func (m *merger) flush(ctx context.Context) error {
	batch := m.batch
	m.batch, m.size = nil, 0
	if len(batch) == 0 {
		return nil
	}
	return m.emit(ctx, batch...)
}
