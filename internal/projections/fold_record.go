package projections

import (
	"fmt"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// ApplyRecord folds one stored event, given as its bytes and its position.
func (s *State) ApplyRecord(seq uint64, data []byte) error {
	if seq <= s.Seq {
		return nil
	}
	e, counted, err := decodeForFold(data)
	if err != nil {
		return fmt.Errorf("decode event at seq %d: %w", seq, err)
	}
	s.Apply(seq, e)
	s.Flows += counted
	return nil
}

// FoldCost tells how much work it is to fold a stored event, as the bytes of flows that take as long: those are hardly
// more than counted.
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

// The numbers of Event's bodies, and of what the fold reads of Flows.
const (
	firstBody      = 16
	bodyFlows      = 21
	bodyAgentEvent = 22
	fieldFlow      = 3 // of Flows
	fieldHubble    = 3 // of Flow: Hubble's message
	fieldVerdict   = 2 // of that
)

// Decode decodes an event; of a batch of flows it has only the dropped ones, and of one of agent events none.
func Decode(data []byte) (*eventpb.Event, error) {
	e, _, err := decodeForFold(data)
	return e, err
}

// FromHubble says that a stored event is a batch of flows or agent events.
func FromHubble(data []byte) bool {
	_, num, _ := cutBody(data)
	return num == bodyFlows || num == bodyAgentEvent
}

// decodeForFold decodes an event; of a batch of flows or agent events only what the fold reads, and beside it how many
// flows are left out. Most of a tape is flows, and to decode them would take most of the time.
func decodeForFold(data []byte) (e *eventpb.Event, leftOut uint64, err error) {
	e = &eventpb.Event{}
	envelope, num, body := cutBody(data)
	if num == bodyFlows || num == bodyAgentEvent {
		dropped, n, ok := pickFlows(body, num)
		if ok && proto.Unmarshal(envelope, e) == nil {
			e.Body = &eventpb.Event_AgentEvents{}
			if num == bodyFlows {
				e.Body = &eventpb.Event_Flows{Flows: &eventpb.Flows{Flows: dropped}}
			}
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

// pickFlows returns the dropped flows of a batch, and how many others there are.
func pickFlows(body []byte, of protowire.Number) (dropped []*eventpb.Flow, others uint64, ok bool) {
	if of != bodyFlows {
		return nil, 0, true
	}
	for len(body) > 0 {
		num, typ, k := protowire.ConsumeTag(body)
		if k < 0 {
			return nil, 0, false
		}
		if num != fieldFlow || typ != protowire.BytesType {
			if body = skipValue(body[k:], num, typ); body == nil {
				return nil, 0, false
			}
			continue
		}
		flow, n := protowire.ConsumeBytes(body[k:])
		if n < 0 {
			return nil, 0, false
		}
		body = body[k+n:]
		if !isDropped(fieldOf(flow, fieldHubble)) {
			others++
			continue
		}
		f := &eventpb.Flow{}
		if proto.Unmarshal(flow, f) != nil {
			return nil, 0, false
		}
		dropped = append(dropped, f)
	}
	return dropped, others, true
}

// fieldOf finds a field of bytes in a message; nil where it is not, or the message is none.
func fieldOf(message []byte, field protowire.Number) []byte {
	for len(message) > 0 {
		num, typ, k := protowire.ConsumeTag(message)
		if k < 0 {
			return nil
		}
		if num == field && typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(message[k:])
			return v
		}
		message = skipValue(message[k:], num, typ)
	}
	return nil
}

// skipValue is what follows a field's value; nil after bytes that are none.
func skipValue(b []byte, num protowire.Number, typ protowire.Type) []byte {
	n := protowire.ConsumeFieldValue(num, typ, b)
	if n < 0 {
		return nil
	}
	return b[n:]
}

// isDropped reads the verdict of Hubble's flow, which stands first in one as it is recorded.
func isDropped(flow []byte) bool {
	for len(flow) > 0 {
		num, typ, k := protowire.ConsumeTag(flow)
		if k < 0 || num > fieldVerdict {
			return false
		}
		if num == fieldVerdict && typ == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(flow[k:])
			return v == uint64(flowpb.Verdict_DROPPED)
		}
		flow = skipValue(flow[k:], num, typ)
	}
	return false
}
