package recorder

import (
	"context"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"github.com/tapedeck-io/tapedeck/internal/sources/hubble"
	"google.golang.org/protobuf/proto"
)

// past is what a session already has when the recorder starts on it.
type past struct {
	state  *projections.State
	hubble hubble.Cursor
}

// recall is the session's last keyframe and the fold of what came after it; of the whole journal without one.
func recall(ctx context.Context, j *journal.Journal, keys keyframes) (*past, error) {
	p := &past{state: projections.NewState()}
	first, last, err := j.Bounds()
	if err != nil || last == 0 {
		return p, err
	}
	if s := keys.newest(ctx); s != nil {
		p.state = s
	}
	err = j.Read(ctx, max(first, p.state.Seq+1), last, func(r journal.Record) error { return p.state.ApplyRecord(r.Seq, r.Data) })
	if err != nil {
		return p, err
	}
	p.hubble, err = hubbleCursor(ctx, j, first, last)
	return p, err
}

// cursorEvents is how many events of each kind a cursor is made of: it knows the last one, and those of its time.
const cursorEvents = 8

// hubbleCursor reads the journal backwards, in growing steps, until it has the last flows and agent events.
func hubbleCursor(ctx context.Context, j *journal.Journal, first, last uint64) (c hubble.Cursor, err error) {
	var found []*eventpb.Event // the newest first
	flows, agent := 0, 0
	for to, step := last, uint64(512); to >= first && (flows < cursorEvents || agent < cursorEvents); step *= 2 {
		from := first
		if to-first >= step {
			from = to - step + 1
		}
		var part []*eventpb.Event
		err := j.Read(ctx, from, to, func(r journal.Record) error {
			if !projections.FromHubble(r.Data) {
				return nil
			}
			e := &eventpb.Event{}
			if err := proto.Unmarshal(r.Data, e); err != nil {
				return err
			}
			part = append(part, e)
			return nil
		})
		if err != nil {
			return c, err
		}
		for _, e := range slices.Backward(part) {
			if n := &flows; e.GetFlows() != nil || e.GetAgentEvents() != nil {
				if e.GetAgentEvents() != nil {
					n = &agent
				}
				if *n++; *n <= cursorEvents {
					found = append(found, e)
				}
			}
		}
		to = from - 1
	}
	for _, e := range slices.Backward(found) {
		c.Add(e)
	}
	return c, nil
}

// start makes the sources, and the events that tell of this start: the time in which no recorder ran, and this run.
// They are made before State goes on.
func (p *past) start(o Options) ([]*eventpb.Event, []sources.Source) {
	var first []*eventpb.Event
	if p.state.Seq > 0 {
		first = append(first, events.New(&eventpb.Gap{
			FromNs: p.state.SeenNs, ToNs: time.Now().UnixNano(), Reason: eventpb.GapReason_GAP_REASON_RESTART,
			Detail: "the recorder was not running",
		}))
	}
	list := o.Aim.sources(o, p)
	var names []string
	for _, s := range list {
		names = append(names, s.Name())
	}
	return append(first, events.New(sessionStart(o, names))), list
}
