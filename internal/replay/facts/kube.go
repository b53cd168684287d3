package facts

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// kubeObject is one object of the cluster.
type kubeObject struct {
	kind eventpb.Kind
	*eventpb.KubeObject
}

func (s *splitter) kube(b *eventpb.KubeObjects) {
	typ := nameOf(b.Kind)
	for _, o := range b.Objects {
		s.add(typ, listed(b.Complete, o.Deleted), 0, kubeObject{b.Kind, o})
	}
	if len(b.Objects) == 0 {
		s.add(typ, Snapshot, 0, empty{"no " + typ})
	}
}

func (o kubeObject) members() []member { return []member{{"kube", messageOf(o.KubeObject)}} }

func (o kubeObject) refs(r *Refs) {
	name := o.Namespace + "/" + o.Name
	if o.Namespace != "" {
		r.Namespaces = append(r.Namespaces, o.Namespace)
	}
	switch o.kind {
	case eventpb.Kind_KIND_SERVICE:
		r.Services = append(r.Services, name)
		r.addAddrs(o.Service.GetClusterIps(), o.Service.GetExternalIps(), o.Service.GetLoadBalancerIps())
		for _, p := range o.Service.GetPorts() {
			r.addPorts(p.Port, p.NodePort, number(p.TargetPort))
		}
	case eventpb.Kind_KIND_ENDPOINT_SLICE:
		o.sliceRefs(r)
	case eventpb.Kind_KIND_POD:
		r.Pods = append(r.Pods, name)
		r.addAddrs(o.Pod.GetPodIps(), []string{o.Pod.GetHostIp()})
		for _, c := range o.Pod.GetContainers() {
			for _, p := range c.Ports {
				r.addPorts(p.Port, p.HostPort)
			}
		}
	case eventpb.Kind_KIND_NODE:
		r.addAddrs(o.Node.GetInternalIps(), o.Node.GetExternalIps(), o.Node.GetPodCidrs())
	case eventpb.Kind_KIND_CILIUM_ENDPOINT:
		r.Pods = append(r.Pods, name)
		r.addAddrs(o.CiliumEndpoint.GetAddresses(), []string{o.CiliumEndpoint.GetNodeIp()})
	}
}

func (o kubeObject) sliceRefs(r *Refs) {
	slice := o.EndpointSlice
	if slice.GetService() != "" {
		r.Services = append(r.Services, o.Namespace+"/"+slice.GetService())
	}
	for _, e := range slice.GetEndpoints() {
		r.addAddrs(e.Addresses)
		if e.TargetKind == "Pod" {
			r.Pods = append(r.Pods, e.TargetNamespace+"/"+e.TargetName)
		}
	}
	for _, p := range slice.GetPorts() {
		r.addPorts(p.GetPort())
	}
}

func number(port string) int32 {
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return 0 // a port's name
	}
	return int32(n)
}

// addAddrs takes addresses and prefixes as text; anything else is passed over.
func (r *Refs) addAddrs(lists ...[]string) {
	for _, list := range lists {
		for _, s := range list {
			if a, err := netip.ParseAddr(s); err == nil {
				r.Addrs = append(r.Addrs, a.Unmap())
			} else if p, err := netip.ParsePrefix(s); err == nil {
				r.Prefixes = append(r.Prefixes, p)
			}
		}
	}
}

func (r *Refs) addPorts(ports ...int32) {
	for _, p := range ports {
		if p > 0 && p <= 65535 {
			r.Ports = append(r.Ports, uint16(p))
		}
	}
}

func (o kubeObject) name() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

func (o kubeObject) text(*Book) string {
	var more []string
	switch o.kind {
	case eventpb.Kind_KIND_SERVICE:
		more = serviceText(o.Service)
	case eventpb.Kind_KIND_ENDPOINT_SLICE:
		more = sliceText(o.EndpointSlice)
	case eventpb.Kind_KIND_POD:
		more = podText(o.Pod)
	case eventpb.Kind_KIND_NODE:
		more = append([]string{ready(o.Node.GetReady())}, o.Node.GetInternalIps()...)
	case eventpb.Kind_KIND_CILIUM_ENDPOINT:
		c := o.CiliumEndpoint
		more = append([]string{c.GetState(), fmt.Sprintf("endpoint %d", c.GetEndpointId()), fmt.Sprintf("identity %d", c.GetIdentity())}, c.GetAddresses()...)
	}
	if o.Deleted {
		more = nil
	} else if o.Deleting {
		more = append(more, "(being deleted)")
	}
	return strings.Join(append([]string{nameOf(o.kind), o.name()}, more...), " ")
}

func serviceText(s *eventpb.Service) []string {
	out := append([]string{s.GetType()}, s.GetClusterIps()...)
	for _, p := range s.GetPorts() {
		text := fmt.Sprintf("%d/%s→%s", p.Port, p.Protocol, p.TargetPort)
		if p.NodePort != 0 {
			text += fmt.Sprintf(" (node port %d)", p.NodePort)
		}
		out = append(out, text)
	}
	return out
}

// sliceText tells the addresses by what the datapath does with them: absent conditions count as the API says.
func sliceText(s *eventpb.EndpointSlice) []string {
	var readyOnes, terminating, notReady []string
	for _, e := range s.GetEndpoints() {
		switch {
		case e.GetTerminating():
			terminating = append(terminating, e.Addresses...)
		case e.Ready == nil || e.GetReady():
			readyOnes = append(readyOnes, e.Addresses...)
		default:
			notReady = append(notReady, e.Addresses...)
		}
	}
	out := []string{"of " + s.GetService(), fmt.Sprintf("ready %v", readyOnes)}
	if len(terminating) > 0 {
		out = append(out, fmt.Sprintf("terminating %v", terminating))
	}
	if len(notReady) > 0 {
		out = append(out, fmt.Sprintf("not ready %v", notReady))
	}
	return out
}

func podText(p *eventpb.Pod) []string {
	out := append([]string{p.GetPhase(), ready(p.GetReady())}, p.GetPodIps()...)
	if p.GetNodeName() != "" {
		out = append(out, "on "+p.GetNodeName())
	}
	return out
}

func ready(ok bool) string {
	if ok {
		return "ready"
	}
	return "not ready"
}
