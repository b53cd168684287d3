package projections

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

func (s *State) kubeThings(add adder) {
	for n, o := range s.Kube[eventpb.Kind_KIND_SERVICE] {
		svc := o.GetService()
		add("service", n.String(), Field{"type", svc.GetType()}, Field{"cluster_ips", strings.Join(svc.GetClusterIps(), ", ")},
			Field{"ports", PortTexts(svc)}, Field{"session_affinity", known(svc.GetSessionAffinity(), "None")}, deleting(o))
	}
	for n, o := range s.Kube[eventpb.Kind_KIND_ENDPOINT_SLICE] {
		for _, e := range o.GetEndpointSlice().GetEndpoints() {
			for _, a := range e.Addresses {
				add("endpoint", n.String()+" "+a, Field{"service", o.GetEndpointSlice().GetService()},
					Field{"ports", endpointPorts(o.GetEndpointSlice())}, Field{"pod", e.TargetName}, Field{"conditions", Conditions(e)})
			}
		}
	}
	for n, o := range s.Kube[eventpb.Kind_KIND_POD] {
		p := o.GetPod()
		add("pod", n.String(), Field{"uid", o.Uid}, Field{"phase", p.GetPhase()}, Field{"ready", strconv.FormatBool(p.GetReady())},
			Field{"ips", strings.Join(p.GetPodIps(), ", ")}, Field{"node", p.GetNodeName()}, Field{"restarts", restarts(p)}, deleting(o))
	}
	for n, o := range s.Kube[eventpb.Kind_KIND_NODE] {
		add("node", n.String(), Field{"ready", strconv.FormatBool(o.GetNode().GetReady())}, Field{"internal_ips", strings.Join(o.GetNode().GetInternalIps(), ", ")})
	}
	for n, o := range s.Kube[eventpb.Kind_KIND_CILIUM_ENDPOINT] {
		e := o.GetCiliumEndpoint()
		add("cilium endpoint", n.String(), Field{"id", strconv.FormatInt(e.GetEndpointId(), 10)}, Field{"identity", strconv.FormatInt(e.GetIdentity(), 10)},
			Field{"addresses", strings.Join(e.GetAddresses(), ", ")}, Field{"state", e.GetState()})
	}
}

// PortTexts lists a Service's ports, as "80/TCP → 8080, nodePort 30780".
func PortTexts(svc *eventpb.Service) string {
	var texts []string
	for _, p := range svc.GetPorts() {
		text := fmt.Sprintf("%d/%s → %s", p.Port, p.Protocol, p.TargetPort)
		if p.NodePort != 0 {
			text += fmt.Sprintf(", nodePort %d", p.NodePort)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func endpointPorts(slice *eventpb.EndpointSlice) string {
	var texts []string
	for _, p := range slice.GetPorts() {
		texts = append(texts, fmt.Sprintf("%d/%s", p.GetPort(), p.Protocol))
	}
	return strings.Join(texts, ", ")
}

// Conditions are an endpoint's conditions in words, as the API means those that it leaves out: "ready",
// "not ready", "serving, terminating".
func Conditions(e *eventpb.Endpoint) string {
	ready, serving := e.Ready == nil || *e.Ready, e.Serving == nil || *e.Serving
	words := []string{"not ready"}
	switch {
	case ready:
		words = []string{"ready"}
	case serving && e.Serving != nil:
		words = []string{"serving"}
	}
	if e.GetTerminating() {
		words = append(words, "terminating")
	}
	return strings.Join(words, ", ")
}

func restarts(p *eventpb.Pod) string {
	n := int32(0)
	for _, c := range p.GetContainers() {
		n += c.Restarts
	}
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n))
}

func deleting(o *eventpb.KubeObject) Field {
	if o.Deleting {
		return Field{"deleting", "true"}
	}
	return Field{}
}

// known is the value, empty when it is the usual one.
func known(value, usual string) string {
	if value == usual {
		return ""
	}
	return value
}
