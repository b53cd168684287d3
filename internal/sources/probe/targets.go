package probe

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// targets finds what to ask in the cluster's objects.
type targets struct {
	cluster sources.Cluster
	profile *profile.Profile
	node    string
}

// nodePort is the profile's NodePort on this node's InternalIP.
func (t targets) nodePort() (subject, bool) {
	svc := t.service(t.profile.NodePort.Service)
	port := portOf(svc, t.profile.NodePort.Port).GetNodePort()
	ip := t.internalIP()
	if svc.GetDeleting() || port == 0 || ip == "" {
		return subject{}, false
	}
	return subject{target: address(ip, port), version: t.version(svc)}, true
}

// ghost is the ClusterIP of the profile's Service without backends, asked from its pod once that is ready.
func (t targets) ghost() (subject, bool) {
	g := t.profile.Ghost
	svc := t.service(g.Service)
	pod := t.cluster.Object(eventpb.Kind_KIND_POD, t.profile.Namespace, g.ProbePod)
	ip := clusterIP(svc)
	if svc.GetDeleting() || portOf(svc, g.Port) == nil || ip == "" || pod.GetDeleting() || !pod.GetPod().GetReady() {
		return subject{}, false
	}
	for _, c := range pod.Pod.Containers {
		if c.State == "running" {
			return subject{
				target: address(ip, g.Port), namespace: pod.Namespace, pod: pod.Name, container: c.Name,
				version: t.version(svc) + " in " + pod.Uid + " " + c.Id,
			}, true
		}
	}
	return subject{}, false
}

func (t targets) service(name string) *eventpb.KubeObject {
	return t.cluster.Object(eventpb.Kind_KIND_SERVICE, t.profile.Namespace, name)
}

// version writes down what decides where a request to the Service goes: its spec and its endpoints.
func (t targets) version(svc *eventpb.KubeObject) string {
	var b strings.Builder
	s := svc.Service
	fmt.Fprintf(&b, "%s %s %v %v %s %s", svc.Uid, s.Type, s.ClusterIps, s.Selector, s.ExternalTrafficPolicy, s.InternalTrafficPolicy)
	for _, p := range s.Ports {
		fmt.Fprintf(&b, " %s/%d/%s/%d", p.Protocol, p.Port, p.TargetPort, p.NodePort)
	}
	for _, o := range t.cluster.Objects(eventpb.Kind_KIND_ENDPOINT_SLICE) {
		if o.Namespace != svc.Namespace || o.EndpointSlice.GetService() != svc.Name {
			continue
		}
		for _, e := range o.EndpointSlice.Endpoints {
			fmt.Fprintf(&b, " %v ready=%t serving=%t", e.Addresses, e.Ready == nil || *e.Ready, e.Serving == nil || *e.Serving)
		}
	}
	return b.String()
}

// internalIP is the first InternalIP of this node, or "".
func (t targets) internalIP() string {
	nodes := t.cluster.Objects(eventpb.Kind_KIND_NODE)
	host, _ := os.Hostname()
	for _, n := range nodes {
		ours := n.Name == t.node || t.node == "" && (len(nodes) == 1 || n.Name == host || n.Labels["kubernetes.io/hostname"] == host)
		if ips := n.GetNode().GetInternalIps(); ours && len(ips) > 0 {
			return ips[0]
		}
	}
	return ""
}

// clusterIP is the first one, or "" for a Service that has none yet or never.
func clusterIP(svc *eventpb.KubeObject) string {
	ips := svc.GetService().GetClusterIps()
	if len(ips) == 0 || net.ParseIP(ips[0]) == nil { // "None" of a headless Service
		return ""
	}
	return ips[0]
}

func portOf(svc *eventpb.KubeObject, port int32) *eventpb.ServicePort {
	for _, p := range svc.GetService().GetPorts() {
		if p.Port == port {
			return p
		}
	}
	return nil
}

func address(ip string, port int32) string {
	return "http://" + net.JoinHostPort(ip, strconv.Itoa(int(port))) + "/"
}
