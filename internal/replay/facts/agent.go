package facts

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// agentObject is one object of the agent's API or one row of its tables.
type agentObject struct {
	kind string
	*eventpb.AgentObject
}

func (s *splitter) agent(b *eventpb.AgentObjects) {
	for _, o := range b.Objects {
		s.add(b.Kind, listed(b.Complete, o.Deleted), 0, agentObject{b.Kind, o})
	}
	if len(b.Objects) == 0 {
		s.add(b.Kind, Snapshot, 0, empty{"no " + b.Kind})
	}
}

func (o agentObject) members() []member {
	out := object{{"key", o.Key}}
	if o.Reconciled != "" {
		out = append(out, member{"reconciled", o.Reconciled})
	}
	if o.ReconciledNs != 0 {
		out = append(out, member{"reconciled_at", Stamp(o.ReconciledNs)})
	}
	if len(o.Json) > 0 {
		out = append(out, member{"object", foreign(o.Json)})
	}
	return []member{{"agent", out}}
}

func (o agentObject) name() string { return o.Key }

// refs reads the key and the object as they come: the agent's objects have no schema here.
func (o agentObject) refs(r *Refs) {
	for _, word := range strings.Fields(o.Key) {
		r.addSocket(word)
		if o.kind == "backend" && strings.Contains(word, "/") && !strings.Contains(word, ":") {
			r.addService(word)
		}
	}
	if o.kind == "status" || o.kind == "config" {
		return // of the agent as a whole
	}
	var v any
	if json.Unmarshal(o.Json, &v) == nil {
		r.walk("", v)
	}
}

func (r *Refs) walk(key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		r.agentNames(v)
		for k, inner := range v {
			r.walk(k, inner)
		}
	case []any:
		for _, inner := range v {
			r.walk(key, inner)
		}
	case string:
		if key == "ServiceName" {
			r.addService(v)
		}
		r.addSocket(v)
	case float64:
		if key == "port" {
			r.addPorts(int32(v))
		}
	}
}

// agentNames finds names that come in two members: of a service's flags, and of an endpoint's pod.
func (r *Refs) agentNames(v map[string]any) {
	text := func(key string) string { s, _ := v[key].(string); return s }
	if ns, name := text("namespace"), text("name"); ns != "" && name != "" {
		r.addService(ns + "/" + name)
	}
	if ns, pod := text("k8s-namespace"), text("k8s-pod-name"); ns != "" && pod != "" {
		r.addPod(ns + "/" + pod)
	}
	if ip, port := text("ip"), v["port"]; ip != "" {
		if n, ok := port.(float64); ok && n > 0 && n <= 65535 {
			r.addSocket(joinPort(ip, uint32(n)))
		}
	}
}

func (r *Refs) addService(name string) {
	if ns, _, ok := strings.Cut(name, "/"); ok {
		r.Namespaces, r.Services = append(r.Namespaces, ns), append(r.Services, name)
	}
}

func (o agentObject) text(*Book) string {
	text := "agent's " + o.kind
	if o.Key != "" {
		text += " " + o.Key
	}
	if o.Reconciled != "" {
		text += " " + o.Reconciled
	}
	if o.ReconciledNs != 0 {
		text += " at " + milli(o.ReconciledNs)
	}
	if o.Deleted {
		return text
	}
	switch o.kind {
	case "frontend":
		return text + frontendText(o.Json)
	case "service":
		return text + serviceRowText(o.Json)
	case "backend":
		return text
	}
	return fmt.Sprintf("%s, %d bytes", text, len(o.Json))
}

// serviceRowText lists a Service's frontend and backends, as the API has them.
func serviceRowText(row []byte) string {
	type address struct {
		IP    string
		Port  uint32
		State string
	}
	var v struct {
		Spec struct {
			Frontend address   `json:"frontend-address"`
			Backends []address `json:"backend-addresses"`
			Flags    struct{ Namespace, Name string }
		}
	}
	if json.Unmarshal(row, &v) != nil {
		return ""
	}
	list := make([]string, len(v.Spec.Backends))
	for i, b := range v.Spec.Backends {
		list[i] = joinPort(b.IP, b.Port)
		if b.State != "active" {
			list[i] += " " + b.State
		}
	}
	return fmt.Sprintf(" %s %s/%s backends %v", joinPort(v.Spec.Frontend.IP, v.Spec.Frontend.Port), v.Spec.Flags.Namespace, v.Spec.Flags.Name, list)
}

// frontendText lists a row's Service and backends.
func frontendText(row []byte) string {
	var v struct {
		ServiceName string
		Backends    []struct{ Address string }
	}
	if json.Unmarshal(row, &v) != nil {
		return ""
	}
	list := make([]string, len(v.Backends))
	for i, b := range v.Backends {
		list[i] = b.Address
	}
	return fmt.Sprintf(" %s backends %v", v.ServiceName, list)
}
