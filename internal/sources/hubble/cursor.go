package hubble

import (
	"bytes"
	"maps"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// maxRemembered bounds what a cursor knows of the flows and agent events before it.
const maxRemembered = 4096

// Cursor is a place in an observer's stream: the last flow and the last agent event that were recorded. The zero
// value is the stream's beginning. A recorder that starts again adds the events it has, in order, and resumes there.
type Cursor struct {
	// TimeNs is the last flow's time, Unix nanoseconds; 0 when there was none.
	TimeNs int64
	// AgentTimeNs is the last agent event's; AgentEvents are the bytes of those at that time, or after it where they
	// came out of order.
	AgentTimeNs int64
	AgentEvents [][]byte

	flows []passed // the last ones, in the order in which they came
	// Where each ring's losses end that were told, by its label: lost events are sent again whatever the time asked
	// for.
	lostNs map[string]int64
}

// passed is a flow that was recorded.
type passed struct {
	node string
	ns   int64
	id   uuid
}

type uuid [16]byte

// Add moves the cursor past the flows or agent events of e, or past a loss; other events leave it as it is.
func (c *Cursor) Add(e *eventpb.Event) {
	for _, f := range e.GetFlows().GetFlows() {
		c.addFlow(e.GetFlows().GetNodeName(), f)
	}
	for _, a := range e.GetAgentEvents().GetEvents() {
		c.addAgentEvent(a)
	}
	if g := e.GetGap(); g.GetReason() == eventpb.GapReason_GAP_REASON_LOST && g.GetCount() > 0 {
		if c.lostNs == nil {
			c.lostNs = make(map[string]int64)
		}
		c.lostNs[g.Detail] = g.ToNs
	}
}

// addFlow follows the last time, not the highest: after the clock was set back, the highest would skip what comes.
func (c *Cursor) addFlow(node string, f *eventpb.Flow) {
	if f.GetTimeNs() == 0 {
		return
	}
	c.TimeNs = f.GetTimeNs()
	if len(c.flows) >= 2*maxRemembered {
		c.flows = append(c.flows[:0], c.flows[maxRemembered:]...)
	}
	p := passed{node: node, ns: f.GetTimeNs()}
	copy(p.id[:], f.GetUuid())
	c.flows = append(c.flows, p)
}

func (c *Cursor) addAgentEvent(a *eventpb.AgentEvent) {
	if a.GetTimeNs() == 0 {
		return
	}
	if a.GetTimeNs() > c.AgentTimeNs {
		c.AgentEvents = nil
	}
	if len(a.GetEvent()) > 0 && len(c.AgentEvents) < maxRemembered {
		c.AgentEvents = append(c.AgentEvents, a.GetEvent())
	}
	c.AgentTimeNs = a.GetTimeNs()
}

// sinceNs is the time from which nothing may be left out. One node's flows come in order of time. A relay's do not,
// where the nodes' clocks differ: then it is that of the node which is furthest behind.
func (c *Cursor) sinceNs() int64 {
	last := make(map[string]int64)
	for _, p := range c.flows {
		last[p.node] = p.ns
	}
	since := c.TimeNs
	for _, ns := range last {
		since = min(since, ns)
	}
	return since
}

// known are the flows that need not be recorded when they come again.
func (c *Cursor) known() map[uuid]bool {
	ids := make(map[uuid]bool, len(c.flows))
	for _, p := range c.flows {
		if p.id != (uuid{}) {
			ids[p.id] = true
		}
	}
	return ids
}

func (c *Cursor) clone() Cursor {
	out := *c
	out.flows, out.AgentEvents, out.lostNs = slices.Clone(c.flows), slices.Clone(c.AgentEvents), maps.Clone(c.lostNs)
	return out
}

func contains(known [][]byte, id []byte) bool {
	return len(id) > 0 && slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, id) })
}
