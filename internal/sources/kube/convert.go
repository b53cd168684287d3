package kube

import (
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is copied here is all that is ever recorded of an object: an allow list. Environment variables, volumes,
// commands, images, managedFields and unlisted annotations have no field to go to.

// object copies the identity of an object.
func object(m *metav1.ObjectMeta) *eventpb.KubeObject {
	return &eventpb.KubeObject{
		Namespace: m.Namespace, Name: m.Name, Uid: string(m.UID), ResourceVersion: m.ResourceVersion,
		CreatedNs: created(m), Deleting: m.DeletionTimestamp != nil,
		Labels: m.Labels, Annotations: annotations(m.Annotations),
	}
}

func created(m *metav1.ObjectMeta) int64 {
	if m.CreationTimestamp.IsZero() {
		return 0
	}
	return m.CreationTimestamp.UnixNano()
}

// annotations keeps those that change how a Service is served.
func annotations(all map[string]string) map[string]string {
	var kept map[string]string
	for k, v := range all {
		if !recorded(k) {
			continue
		}
		if kept == nil {
			kept = make(map[string]string)
		}
		kept[k] = v
	}
	return kept
}

func recorded(annotation string) bool {
	domain, name, _ := strings.Cut(annotation, "/")
	switch domain {
	case "service.cilium.io", "service.kubernetes.io", "topology.kubernetes.io":
		return true
	}
	return strings.Contains(name, "topology") && (domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"))
}

func service(s *corev1.Service) *eventpb.KubeObject {
	spec := &s.Spec
	out := &eventpb.Service{
		Type: string(spec.Type), ClusterIps: clusterIPs(spec), ExternalIps: spec.ExternalIPs, Selector: spec.Selector,
		SessionAffinity:       string(spec.SessionAffinity),
		ExternalTrafficPolicy: string(spec.ExternalTrafficPolicy), InternalTrafficPolicy: string(deref(spec.InternalTrafficPolicy)),
		ExternalName: spec.ExternalName, SourceRanges: spec.LoadBalancerSourceRanges,
		HealthCheckNodePort: spec.HealthCheckNodePort, TrafficDistribution: deref(spec.TrafficDistribution),
		PublishNotReady: spec.PublishNotReadyAddresses,
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			out.LoadBalancerIps = append(out.LoadBalancerIps, i.IP)
		}
	}
	for _, f := range spec.IPFamilies {
		out.IpFamilies = append(out.IpFamilies, string(f))
	}
	if a := spec.SessionAffinityConfig; a != nil && a.ClientIP != nil {
		out.AffinityTimeoutSeconds = deref(a.ClientIP.TimeoutSeconds)
	}
	for _, p := range spec.Ports {
		out.Ports = append(out.Ports, &eventpb.ServicePort{
			Name: p.Name, Protocol: string(p.Protocol), Port: p.Port, TargetPort: p.TargetPort.String(), NodePort: p.NodePort,
		})
	}
	o := object(&s.ObjectMeta)
	o.Service = out
	return o
}

// clusterIPs falls back to the old single field, which is all that servers before 1.20 have.
func clusterIPs(spec *corev1.ServiceSpec) []string {
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP != "" {
		return []string{spec.ClusterIP}
	}
	return spec.ClusterIPs
}

func endpointSlice(s *discoveryv1.EndpointSlice) *eventpb.KubeObject {
	out := &eventpb.EndpointSlice{
		Service: s.Labels[discoveryv1.LabelServiceName], AddressType: string(s.AddressType), PortsNull: s.Ports == nil,
	}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, &eventpb.EndpointPort{Name: deref(p.Name), Protocol: string(deref(p.Protocol)), Port: p.Port})
	}
	for i := range s.Endpoints {
		out.Endpoints = append(out.Endpoints, sliceEndpoint(&s.Endpoints[i]))
	}
	o := object(&s.ObjectMeta)
	o.EndpointSlice = out
	return o
}

func sliceEndpoint(e *discoveryv1.Endpoint) *eventpb.Endpoint {
	out := &eventpb.Endpoint{
		Addresses: e.Addresses,
		Ready:     e.Conditions.Ready, Serving: e.Conditions.Serving, Terminating: e.Conditions.Terminating,
		NodeName: deref(e.NodeName), Zone: deref(e.Zone),
	}
	if t := e.TargetRef; t != nil {
		out.TargetKind, out.TargetNamespace, out.TargetName, out.TargetUid = t.Kind, t.Namespace, t.Name, string(t.UID)
	}
	if h := e.Hints; h != nil {
		for _, z := range h.ForZones {
			out.HintZones = append(out.HintZones, z.Name)
		}
		for _, n := range h.ForNodes {
			out.HintNodes = append(out.HintNodes, n.Name)
		}
	}
	return out
}

func pod(p *corev1.Pod) *eventpb.KubeObject {
	out := &eventpb.Pod{
		NodeName: p.Spec.NodeName, HostIp: p.Status.HostIP, Phase: string(p.Status.Phase), HostNetwork: p.Spec.HostNetwork,
	}
	for _, ip := range p.Status.PodIPs {
		out.PodIps = append(out.PodIps, ip.IP)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		out.OwnerKind, out.OwnerName = owner.Kind, owner.Name
	}
	// Restartable init containers (sidecars) log and listen as others do.
	for _, group := range []struct {
		specs    []corev1.Container
		statuses []corev1.ContainerStatus
	}{{p.Spec.InitContainers, p.Status.InitContainerStatuses}, {p.Spec.Containers, p.Status.ContainerStatuses}} {
		for i := range group.specs {
			out.Containers = append(out.Containers, container(&group.specs[i], group.statuses))
		}
	}
	o := object(&p.ObjectMeta)
	o.Pod = out
	return o
}

// container joins a container's ports with what the kubelet reports of it, which may be nothing yet.
func container(spec *corev1.Container, statuses []corev1.ContainerStatus) *eventpb.Container {
	out := &eventpb.Container{Name: spec.Name}
	for _, p := range spec.Ports {
		out.Ports = append(out.Ports, &eventpb.ContainerPort{
			Name: p.Name, Protocol: string(p.Protocol), Port: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
		})
	}
	for i := range statuses {
		s := &statuses[i]
		if s.Name != spec.Name {
			continue
		}
		out.Id, out.Ready, out.Restarts, out.State = s.ContainerID, s.Ready, s.RestartCount, stateName(&s.State)
		if t := s.LastTerminationState.Terminated; t != nil {
			out.PreviousId = t.ContainerID
		}
	}
	return out
}

func stateName(s *corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return "terminated"
	default: // the API's own default
		return "waiting"
	}
}

func node(n *corev1.Node) *eventpb.KubeObject {
	out := &eventpb.Node{
		Zone: n.Labels[corev1.LabelTopologyZone], PodCidrs: n.Spec.PodCIDRs,
		Kernel: n.Status.NodeInfo.KernelVersion, Kubelet: n.Status.NodeInfo.KubeletVersion,
	}
	for _, a := range n.Status.Addresses {
		switch a.Type {
		case corev1.NodeInternalIP:
			out.InternalIps = append(out.InternalIps, a.Address)
		case corev1.NodeExternalIP:
			out.ExternalIps = append(out.ExternalIps, a.Address)
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	o := object(&n.ObjectMeta)
	o.Node = out
	return o
}

func endpoint(e *ciliumEndpoint) *eventpb.KubeObject {
	out := &eventpb.CiliumEndpoint{EndpointId: e.Status.ID, State: e.Status.State}
	if i := e.Status.Identity; i != nil {
		out.Identity = i.ID
	}
	if n := e.Status.Networking; n != nil {
		out.NodeIp = n.Node
		for _, a := range n.Addressing {
			for _, ip := range []string{a.IPV4, a.IPV6} {
				if ip != "" {
					out.Addresses = append(out.Addresses, ip)
				}
			}
		}
	}
	o := object(&e.ObjectMeta)
	o.CiliumEndpoint = out
	return o
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}
