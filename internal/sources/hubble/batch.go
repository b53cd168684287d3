package hubble

import (
	"slices"
	"strings"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

const (
	// window is how long flows are gathered into one event; maxFlows or maxBytes end it early.
	window   = 50 * time.Millisecond
	maxFlows = 2000
	maxBytes = 256 << 10
)

// batch gathers the flows and agent events of one window. Flows of one node are one event, since node name and
// labels stand there once; within it they are in the order of the observer.
type batch struct {
	nodes  []string // in order of appearance
	flows  map[string]*eventpb.Event
	agent  *eventpb.Event
	size   int
	bytes  int
	lastNs int64
}

func newBatch() *batch { return &batch{flows: make(map[string]*eventpb.Event)} }

func (b *batch) empty() bool { return b.size == 0 }
func (b *batch) full() bool  { return b.size >= maxFlows || b.bytes >= maxBytes }

// addFlow packs a flow, which is changed.
func (b *batch) addFlow(f *flowpb.Flow, seen time.Time) error {
	name, labels := f.GetNodeName(), f.GetNodeLabels()
	packed, err := pack(f)
	if err != nil {
		return err
	}
	key := name + "\x00" + strings.Join(labels, "\x00")
	e, ok := b.flows[key]
	if !ok {
		e = events.New(&eventpb.Flows{NodeName: name, NodeLabels: slices.Clone(labels)})
		e.SeenNs, e.TimeNs = seen.UnixNano(), packed.TimeNs
		b.flows[key] = e
		b.nodes = append(b.nodes, key)
	}
	e.GetFlows().Flows = append(e.GetFlows().Flows, packed)
	b.lastNs = packed.TimeNs
	b.grow(len(packed.Flow))
	return nil
}

func (b *batch) addAgentEvent(a *eventpb.AgentEvent, seen time.Time) {
	if b.agent == nil {
		b.agent = events.New(&eventpb.AgentEvents{})
		b.agent.SeenNs, b.agent.TimeNs = seen.UnixNano(), a.TimeNs
	}
	body := b.agent.GetAgentEvents()
	body.Events = append(body.Events, a)
	b.grow(len(a.Event))
}

func (b *batch) grow(bytes int) {
	b.size++
	b.bytes += bytes
}

// take returns the window's events and begins anew.
func (b *batch) take() []*eventpb.Event {
	var out []*eventpb.Event
	for _, key := range b.nodes {
		out = append(out, b.flows[key])
	}
	if b.agent != nil {
		out = append(out, b.agent)
	}
	b.nodes, b.agent, b.size, b.bytes = nil, nil, 0, 0
	clear(b.flows)
	return out
}
