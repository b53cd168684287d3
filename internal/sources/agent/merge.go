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
			o, err := ch.table.apply(&ch.row)
			if err != nil {
				return err
			}
			if o == nil {
				continue
			}
			fire(m.triggers)
			m.reread.Fire()
			if len(m.batch) == 0 {
				window.Reset(batchWindow)
			}
			m.add(ch, o)
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
