//lint:file-ignore SA1019 Service events are deprecated, but older agents send them, and a tape keeps them.

package facts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	observerpb "github.com/cilium/cilium/api/v1/observer"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/hubble"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// flow is one flow, expanded when something of it is asked for.
type flow struct {
	batch *eventpb.Flows
	n     int
	made  *flowpb.Flow
}

func (s *splitter) flows(b *eventpb.Flows) {
	s.event.flowNode = b.NodeName
	for i, packed := range b.Flows {
		f := &flow{batch: b, n: i}
		s.add("", Told, packed.TimeNs, f)
	}
}

// get is never nil: bytes that are no flow give an empty one.
func (f *flow) get() *flowpb.Flow {
	if f.made == nil {
		if f.made = hubble.Expand(f.batch, f.n); f.made == nil {
			f.made = &flowpb.Flow{}
		}
	}
	return f.made
}

// Flow is the fact's flow as the observer sent it; nil for other facts.
func (f *Fact) Flow() *flowpb.Flow {
	if b, ok := f.body.(*flow); ok {
		return b.get()
	}
	return nil
}

// HubbleLine is a flow as `hubble observe -o jsonpb` prints it, without the line's end. protojson puts in blanks by
// chance; they are taken out, so that the same flow gives the same bytes.
func HubbleLine(f *flowpb.Flow) ([]byte, error) {
	line, err := compactJSON(&observerpb.GetFlowsResponse{
		ResponseTypes: &observerpb.GetFlowsResponse_Flow{Flow: f}, NodeName: f.GetNodeName(), Time: f.GetTime(),
	})
	if err != nil {
		return nil, fmt.Errorf("print flow %s: %w", f.GetUuid(), err)
	}
	return line, nil
}

func compactJSON(m proto.Message) ([]byte, error) {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Compact(&out, b)
	return out.Bytes(), err
}

// hubbleMessage is a message of Hubble's as its own tool prints it; one that cannot be printed says why.
func hubbleMessage(m proto.Message) any {
	b, err := compactJSON(m)
	if err != nil {
		return object{{"unreadable", err.Error()}}
	}
	return json.RawMessage(b)
}

func (f *flow) members() []member { return []member{{"flow", hubbleMessage(f.get())}} }

func (f *flow) refs(r *Refs) {
	p := f.get()
	r.Verdict = p.GetVerdict().String()
	src, dst := flowPorts(p)
	r.flowEnd(p.GetIP().GetSource(), src, p.GetSource(), p.GetSourceService())
	r.flowEnd(p.GetIP().GetDestination(), dst, p.GetDestination(), p.GetDestinationService())
}

func (r *Refs) flowEnd(ip string, port uint32, end *flowpb.Endpoint, service *flowpb.Service) {
	if port != 0 {
		r.addSocket(joinPort(ip, port))
	} else {
		r.addAddrs([]string{ip})
	}
	if ns := end.GetNamespace(); ns != "" {
		r.Namespaces = append(r.Namespaces, ns)
		if end.GetPodName() != "" {
			r.Pods = append(r.Pods, ns+"/"+end.GetPodName())
		}
	}
	if service.GetName() != "" {
		r.Namespaces = append(r.Namespaces, service.GetNamespace())
		r.Services = append(r.Services, service.GetNamespace()+"/"+service.GetName())
	}
}

// agentEvent is one of the agent's notifications, by way of Hubble.
type agentEvent struct {
	*flowpb.AgentEvent
}

func (s *splitter) agentEvents(b *eventpb.AgentEvents) {
	for _, packed := range b.Events {
		a := &flowpb.AgentEvent{}
		if proto.Unmarshal(packed.Event, a) != nil {
			a = &flowpb.AgentEvent{}
		}
		s.add(strings.ToLower(a.GetType().String()), Told, packed.TimeNs, agentEvent{a})
	}
}

func (a agentEvent) members() []member {
	return []member{{"agent_event", hubbleMessage(a.AgentEvent)}}
}

func (a agentEvent) refs(r *Refs) {
	if u := a.GetEndpointUpdate(); u != nil {
		r.addPod(u.GetNamespace() + "/" + u.GetPodName())
	}
	if u := a.GetIpcacheUpdate(); u != nil {
		r.addAddrs([]string{u.GetCidr(), u.GetHostIp(), u.GetOldHostIp()})
		if u.GetPodName() != "" {
			r.addPod(u.GetNamespace() + "/" + u.GetPodName())
		}
	}
	u := a.GetServiceUpsert()
	if u.GetName() != "" {
		r.Namespaces, r.Services = append(r.Namespaces, u.GetNamespace()), append(r.Services, u.GetNamespace()+"/"+u.GetName())
	}
	for _, addr := range append(slices.Clone(u.GetBackendAddresses()), u.GetFrontendAddress()) {
		if addr != nil {
			r.addSocket(joinPort(addr.GetIp(), addr.GetPort()))
		}
	}
}

func (a agentEvent) text(*Book) string {
	text := a.GetType().String()
	if details := agentDetails(a.AgentEvent); details != "" {
		text += " (" + details + ")"
	}
	return text
}

func agentDetails(a *flowpb.AgentEvent) string {
	switch {
	case a.GetAgentStart() != nil:
		return "start time: " + stampOf(a.GetAgentStart().GetTime())
	case a.GetPolicyUpdate() != nil:
		p := a.GetPolicyUpdate()
		return fmt.Sprintf("labels: [%s], revision: %d, count: %d", strings.Join(p.GetLabels(), ","), p.GetRevision(), p.GetRuleCount())
	case a.GetEndpointRegenerate() != nil:
		e := a.GetEndpointRegenerate()
		text := fmt.Sprintf("id: %d, labels: [%s]", e.GetId(), strings.Join(e.GetLabels(), ","))
		if e.GetError() != "" {
			text += ", error: " + e.GetError()
		}
		return text
	case a.GetEndpointUpdate() != nil:
		e := a.GetEndpointUpdate()
		text := fmt.Sprintf("id: %d", e.GetId())
		if e.GetNamespace() != "" {
			text += ", namespace: " + e.GetNamespace()
		}
		if e.GetPodName() != "" {
			text += ", pod name: " + e.GetPodName()
		}
		return text
	case a.GetIpcacheUpdate() != nil:
		e := a.GetIpcacheUpdate()
		text := fmt.Sprintf("cidr: %s, identity: %d", e.GetCidr(), e.GetIdentity())
		if e.GetHostIp() != "" {
			text += ", host ip: " + e.GetHostIp()
		}
		if e.GetOldHostIp() != "" {
			text += ", old host ip: " + e.GetOldHostIp()
		}
		return text
	case a.GetServiceUpsert() != nil:
		s := a.GetServiceUpsert()
		return fmt.Sprintf("id: %d, namespace: %s, name: %s", s.GetId(), s.GetNamespace(), s.GetName())
	case a.GetServiceDelete() != nil:
		return fmt.Sprintf("id: %d", a.GetServiceDelete().GetId())
	case a.GetUnknown() != nil:
		return fmt.Sprintf("type: %s, notification: %s", a.GetUnknown().GetType(), a.GetUnknown().GetNotification())
	}
	return ""
}

func stampOf(t *timestamppb.Timestamp) string {
	if !t.IsValid() {
		return "N/A"
	}
	return Stamp(t.AsTime().UnixNano())
}
