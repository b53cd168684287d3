package projections

import (
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// ApplyRecord folds one stored event, given as its bytes and its position.
func (s *State) ApplyRecord(seq uint64, data []byte) error {
	if seq <= s.Seq {
		return nil
	}
	e, flows, err := decodeForFold(data)
	if err != nil {
		return fmt.Errorf("decode event at seq %d: %w", seq, err)
	}
	s.Apply(seq, e)
	s.Flows += flows
	return nil
}

// FoldCost tells how much work it is to fold a stored event, as the bytes of flows that take as long: those are only
// counted.
func FoldCost(data []byte) int {
	switch _, num, _ := cutBody(data); num {
	case bodyFlows, bodyAgentEvent:
		return len(data)
	default:
		return otherCost * len(data)
	}
}

// otherCost is measured: a byte of a map's change costs about that many bytes of flows.
const otherCost = 3

// The numbers of Event's bodies, and of the flows in Flows.
const (
	firstBody      = 16
	bodyFlows      = 21
	bodyAgentEvent = 22
	fieldFlow      = 3
)

// Decode decodes an event less its flows or agent events, if it is a batch of those: it then has the body of an empty
// batch of agent events.
func Decode(data []byte) (*eventpb.Event, error) {
	e, _, err := decodeForFold(data)
	return e, err
}

// FromHubble says that a stored event is a batch of flows or agent events.
func FromHubble(data []byte) bool {
	_, num, _ := cutBody(data)
	return num == bodyFlows || num == bodyAgentEvent
}

// decodeForFold decodes an event less what the fold only counts: a batch of flows comes without its flows, as an
// empty one of agent events, and beside it how many they are. Most of a tape is flows, and to decode them would take
// most of the time.
func decodeForFold(data []byte) (e *eventpb.Event, flows uint64, err error) {
	e = &eventpb.Event{}
	envelope, num, body := cutBody(data)
	if num == bodyFlows || num == bodyAgentEvent {
		n, ok := countFlows(body, num)
		if ok && proto.Unmarshal(envelope, e) == nil {
			e.Body = &eventpb.Event_AgentEvents{}
			return e, n, nil
		}
	}
	return e, 0, proto.Unmarshal(data, e)
}

// cutBody parts an event into the fields before its body and the body. The number is 0 when the event is not of that
// form, which all events have that were written by this project's programs.
func cutBody(data []byte) (envelope []byte, num protowire.Number, body []byte) {
	for rest := data; len(rest) > 0; {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return nil, 0, nil
		}
		if num < firstBody {
			k := protowire.ConsumeFieldValue(num, typ, rest[n:])
			if k < 0 {
				return nil, 0, nil
			}
			rest = rest[n+k:]
			continue
		}
		body, k := protowire.ConsumeBytes(rest[n:])
		if typ != protowire.BytesType || k < 0 || n+k != len(rest) {
			return nil, 0, nil
		}
		return data[:len(data)-len(rest)], num, body
	}
	return nil, 0, nil
}

func countFlows(body []byte, of protowire.Number) (n uint64, ok bool) {
	if of != bodyFlows {
		return 0, true
	}
	for len(body) > 0 {
		num, _, k := protowire.ConsumeField(body)
		if k < 0 {
			return 0, false
		}
		if num == fieldFlow {
			n++
		}
		body = body[k:]
	}
	return n, true
}
