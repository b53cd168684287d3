package events

import (
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// New wraps a body in an event. It panics on a type that is no body: that is a mistake in the program.
func New(body proto.Message) *eventpb.Event {
	e := &eventpb.Event{}
	switch b := body.(type) {
	case *eventpb.Session:
		e.Body = &eventpb.Event_SessionStart{SessionStart: b}
	case *eventpb.SourceStatus:
		e.Body = &eventpb.Event_Status{Status: b}
	case *eventpb.Gap:
		e.Body = &eventpb.Event_Gap{Gap: b}
	case *eventpb.Mark:
		e.Body = &eventpb.Event_Mark{Mark: b}
	case *eventpb.KubeObjects:
		e.Body = &eventpb.Event_Kube{Kube: b}
	case *eventpb.Flows:
		e.Body = &eventpb.Event_Flows{Flows: b}
	case *eventpb.AgentEvents:
		e.Body = &eventpb.Event_AgentEvents{AgentEvents: b}
	case *eventpb.MapDeltas:
		e.Body = &eventpb.Event_Maps{Maps: b}
	case *eventpb.LogLines:
		e.Body = &eventpb.Event_Log{Log: b}
	case *eventpb.AgentObjects:
		e.Body = &eventpb.Event_Agent{Agent: b}
	case *eventpb.HostState:
		e.Body = &eventpb.Event_Host{Host: b}
	case *eventpb.ProbeResult:
		e.Body = &eventpb.Event_Probe{Probe: b}
	case *eventpb.Tick:
		e.Body = &eventpb.Event_Tick{Tick: b}
	default:
		panic(fmt.Sprintf("events: %T is no event body", body))
	}
	return e
}

// KindOf names an event's body as it stands in subjects and listings: "kube", "maps", … and "unknown" for a
// body of a newer version.
func KindOf(e *eventpb.Event) string {
	m := e.ProtoReflect()
	d := m.WhichOneof(m.Descriptor().Oneofs().ByName("body"))
	if d == nil {
		return "unknown"
	}
	return string(d.Name())
}
