package recorder

import (
	"context"
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

// recall folds the whole journal.
func recall(ctx context.Context, j *journal.Journal) (*past, error) {
	p := &past{state: projections.NewState()}
	first, last, err := j.Bounds()
	if err != nil || last == 0 {
		return p, err
	}
	return p, j.Read(ctx, first, last, func(r journal.Record) error {
		e := &eventpb.Event{}
		if err := proto.Unmarshal(r.Data, e); err != nil {
			return err
		}
		p.hubble.Add(e)
		p.state.Apply(r.Seq, e)
		return nil
	})
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

// logEnds tells the podlog source where it stopped. It is a copy: State goes on in another goroutine.
func (p *past) logEnds() func(containerID string) int64 {
	ends := p.state.LogEnds()
	return func(id string) int64 { return ends[id] }
}
