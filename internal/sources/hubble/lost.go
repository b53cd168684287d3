package hubble

import (
	"maps"
	"slices"
	"strings"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// losses sums lost events by the ring that lost them, so that a flood of them is one gap a second.
type losses map[flowpb.LostEventSource]*eventpb.Gap

// lossGap is one lost event that was told at toldNs. Where it has no bounds of its own, the loss lies between the last
// flow before it (sinceNs) and the moment it was told.
func lossGap(lost *flowpb.LostEvent, sinceNs, toldNs int64) *eventpb.Gap {
	from, ok := unixNano(lost.GetFirst())
	if !ok {
		from = sinceNs
	}
	to, ok := unixNano(lost.GetLast())
	if !ok {
		to = toldNs
	}
	if from == 0 || from > to {
		from = to
	}
	return &eventpb.Gap{
		FromNs: from, ToNs: to, Reason: eventpb.GapReason_GAP_REASON_LOST,
		Count: lost.GetNumEventsLost(), Detail: lostLabel(lost.GetSource()),
	}
}

func (l losses) add(source flowpb.LostEventSource, g *eventpb.Gap) {
	sum, ok := l[source]
	if !ok {
		l[source] = g
		return
	}
	sum.FromNs, sum.ToNs = min(sum.FromNs, g.FromNs), max(sum.ToNs, g.ToNs)
	sum.Count += g.Count
}

// take returns the gaps in the order of their sources and begins anew.
func (l losses) take() []*eventpb.Event {
	var out []*eventpb.Event
	for _, source := range slices.Sorted(maps.Keys(l)) {
		out = append(out, events.New(l[source]))
	}
	clear(l)
	return out
}

// lostLabel is the value of the label source in hubble_lost_events_total.
func lostLabel(s flowpb.LostEventSource) string {
	if s == flowpb.LostEventSource_UNKNOWN_LOST_EVENT_SOURCE {
		return "unknown"
	}
	return strings.ToLower(s.String())
}
