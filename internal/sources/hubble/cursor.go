package hubble

import (
	"bytes"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// maxRemembered bounds what a cursor knows of one instant.
const maxRemembered = 4096

// Cursor is a place in an observer's stream: the last flow and the last agent event that were recorded. The zero
// value is the stream's beginning. A recorder that starts again adds the events it has, in order, and resumes there.
type Cursor struct {
	// TimeNs is the last flow's time, Unix nanoseconds; 0 when there was none.
	TimeNs int64
	// UUIDs are of the flows at that time, or after it where flows came out of order; 16 bytes each.
	UUIDs [][]byte
	// AgentTimeNs and AgentEvents (their bytes) are the same of agent events.
	AgentTimeNs int64
	AgentEvents [][]byte
}

// Add moves the cursor past the flows or agent events of e; other events leave it as it is.
func (c *Cursor) Add(e *eventpb.Event) {
	for _, f := range e.GetFlows().GetFlows() {
		c.TimeNs, c.UUIDs = pass(c.TimeNs, c.UUIDs, f.GetTimeNs(), f.GetUuid())
	}
	for _, a := range e.GetAgentEvents().GetEvents() {
		c.AgentTimeNs, c.AgentEvents = pass(c.AgentTimeNs, c.AgentEvents, a.GetTimeNs(), a.GetEvent())
	}
}

// pass follows the last time, not the highest: after the clock was set back, the highest would skip what comes.
func pass(at int64, known [][]byte, next int64, id []byte) (int64, [][]byte) {
	if next == 0 {
		return at, known
	}
	if next > at {
		known = nil
	}
	if len(id) > 0 && len(known) < maxRemembered {
		known = append(known, id)
	}
	return next, known
}

func (c *Cursor) clone() Cursor {
	out := *c
	out.UUIDs, out.AgentEvents = slices.Clone(c.UUIDs), slices.Clone(c.AgentEvents)
	return out
}

func contains(known [][]byte, id []byte) bool {
	return len(id) > 0 && slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, id) })
}
