package projections

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Agent holds the agent's objects, by kind and key, as the agent spells them.
type Agent map[string]map[string]*eventpb.AgentObject

// applyAgent takes objects in, and what is decoded of the table of frontends.
func (s *State) applyAgent(b *eventpb.AgentObjects) {
	if b.Kind != "frontend" {
		s.Agent.apply(b)
		s.touchAgent(b.Kind)
		switch b.Kind {
		case "endpoint":
			s.joinEndpoints(b)
		case "status":
			s.noteStatus()
		case "config":
			s.noteConfig()
		}
		return
	}
	s.touch(topicServices)
	if s.Agent[b.Kind] == nil {
		s.touchFrontends() // from now on it is known of each whether the agent has it
	}
	if b.Complete {
		for key := range s.Agent[b.Kind] {
			s.joinAgent(key, false)
		}
	}
	s.Agent.apply(b)
	for _, o := range b.Objects {
		s.joinAgent(o.Key, !o.Deleted)
	}
}

func (a Agent) apply(b *eventpb.AgentObjects) {
	if b.Complete || a[b.Kind] == nil {
		a[b.Kind] = make(map[string]*eventpb.AgentObject, len(b.Objects))
	}
	for _, o := range b.Objects {
		if o.Deleted {
			delete(a[b.Kind], o.Key)
		} else {
			a[b.Kind][o.Key] = o
		}
	}
}

// decode reads one object into v; false when there is none or it is not what v expects.
func (a Agent) decode(kind, key string, v any) bool {
	o := a[kind][key]
	return o != nil && json.Unmarshal(o.Json, v) == nil
}

// device returns the endpoint's device on the host.
func (a Agent) device(endpointID string) (name string, ifindex int32, ok bool) {
	var e struct {
		Status struct {
			Networking struct {
				Name  string `json:"interface-name"`
				Index int32  `json:"interface-index"`
			} `json:"networking"`
		} `json:"status"`
	}
	ok = a.decode("endpoint", endpointID, &e) && e.Status.Networking.Name != ""
	return e.Status.Networking.Name, e.Status.Networking.Index, ok
}

// backendCount returns how many backends the agent lists for a Service's ClusterIP frontend at a port: of several
// (one for each address family) the first by the agent's key.
func (a Agent) backendCount(namespace, name string, port int32) (int, bool) {
	quoted := []byte(strconv.Quote(name)) // most Services are not looked at further than this
	for _, key := range sortedNames(a["service"]) {
		if !bytes.Contains(a["service"][key].Json, quoted) {
			continue
		}
		var v struct {
			Spec struct {
				Flags struct{ Name, Namespace, Type string } `json:"flags"`
				Front struct{ Port int32 }                   `json:"frontend-address"`
				Backs []json.RawMessage                      `json:"backend-addresses"`
			} `json:"spec"`
		}
		if a.decode("service", key, &v) && v.Spec.Flags.Namespace == namespace && v.Spec.Flags.Name == name && v.Spec.Flags.Type == "ClusterIP" && v.Spec.Front.Port == port {
			return len(v.Spec.Backs), true
		}
	}
	return 0, false
}
