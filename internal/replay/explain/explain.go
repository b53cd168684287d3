// Package explain sets side by side what the API, the agent, the maps, the node and the applications say of one thing,
// and says why they differ. Every sentence names the events that it rests on, and a sentence that rests on none is not
// made.
package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"google.golang.org/protobuf/proto"
)

// Explanation is the answer.
type Explanation struct {
	Subject    string      `json:"subject"`
	Time       string      `json:"time"` // of the last event that is known, RFC 3339, UTC
	Seq        uint64      `json:"seq"`
	Views      []View      `json:"views"`
	Statements []Statement `json:"statements"`
	Unknown    []Unknown   `json:"unknown"`

	state *projections.State
}

// View is what one side says.
type View struct {
	View string   `json:"view"` // API, agent, map, conntrack, socket, application, node, probe
	What string   `json:"what"`
	Says string   `json:"says"`
	Seq  []uint64 `json:"seq"` // the events that say so

	facts []fact
}

// Statement is a sentence about how the views fit together.
type Statement struct {
	Text string   `json:"text"`
	Seq  []uint64 `json:"seq"`

	facts []fact
}

// Unknown is what cannot be said, and who would know.
type Unknown struct {
	What   string `json:"what"`
	Source string `json:"source"`
}

// Subject fills in an explanation from its state.
type Subject func(*Explanation) error

// Of explains a subject at State's position, and finds the witnesses on the tape.
func Of(ctx context.Context, tape journal.Reader, state *projections.State, subject Subject) (*Explanation, error) {
	e := &Explanation{Time: millis(state.SeenNs), Seq: state.Seq, Views: []View{}, Statements: []Statement{}, Unknown: []Unknown{}, state: state}
	if err := subject(e); err != nil {
		return nil, err
	}
	var wanted []fact
	for _, v := range e.Views {
		wanted = append(wanted, v.facts...)
	}
	for _, s := range e.Statements {
		wanted = append(wanted, s.facts...)
	}
	w := newWitnesses(wanted)
	err := tape.Read(ctx, 0, state.Seq, func(r journal.Record) error {
		ev := &eventpb.Event{}
		if err := proto.Unmarshal(r.Data, ev); err != nil {
			return fmt.Errorf("decode event at seq %d: %w", r.Seq, err)
		}
		w.see(r.Seq, ev)
		return nil
	})
	e.witnessed(w)
	return e, err
}

// witnessed puts the events beside what rests on them. What has no witness is not said.
func (e *Explanation) witnessed(w *witnesses) {
	views, statements := e.Views[:0], e.Statements[:0]
	for _, v := range e.Views {
		if seq, ok := w.of(v.facts); ok {
			v.Seq = seq
			views = append(views, v)
		} else {
			e.unknown(v.What, "none: no event on the tape supports what is known of it")
		}
	}
	for _, s := range e.Statements {
		if seq, ok := w.of(s.facts); ok {
			s.Seq = seq
			statements = append(statements, s)
		}
	}
	e.Views, e.Statements = views, statements
}

// of returns the events that set all the facts; false when one has none.
func (w *witnesses) of(facts []fact) ([]uint64, bool) {
	var list []uint64
	for _, f := range facts {
		if w.seq[f] == 0 {
			return nil, false
		}
		list = append(list, w.seq[f])
	}
	slices.Sort(list)
	return slices.Compact(list), len(list) > 0
}

func (e *Explanation) view(view, what, says string, facts ...fact) {
	e.Views = append(e.Views, View{View: view, What: what, Says: says, facts: facts})
}

func (e *Explanation) say(text string, facts ...fact) {
	e.Statements = append(e.Statements, Statement{Text: text, facts: slices.Clone(facts)})
}

func (e *Explanation) unknown(what, source string) {
	e.Unknown = append(e.Unknown, Unknown{what, source})
}

func millis(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z") }
