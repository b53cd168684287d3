package projections

import (
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// cilium#9576: a port is taken from the Service, and stays in the map. Its origin is the last object that had it.
func TestRemovedPortIsLeftBehind(t *testing.T) {
	st := settled(t)
	two := func(o *eventpb.KubeObject) {
		o.Service.Ports = append(o.Service.Ports, &eventpb.ServicePort{Name: "b", Protocol: "TCP", Port: 81})
		o.Service.Ports[0].Name = "a"
	}
	st.svc("web", two)
	st.row(webIP+":81/TCP", "cca-dp/web", "Done", "", "10.42.0.9:8080/TCP", "10.42.0.38:8080/TCP")
	st.front(lbEntry{front: webIP + ":81"}, lbBackend{address: "10.42.0.9:8080"}, lbBackend{address: "10.42.0.38:8080"})
	st.wait(10)
	st.wantOpen("with two ports")
	st.svc("web", nil)
	st.wait(4)
	st.wantOpen("in flight")
	st.wait(2)
	st.wantOpen("after the bound", "frontend-left-behind "+webIP+":81/TCP")
	st.wantText("frontend-left-behind", "no Service or pod claims 10.43.0.7:81/TCP (ClusterIP)", "it was of the Service cca-dp/web (uid uid-web), which has it no more",
		"the agent still has it, as of cca-dp/web: the agent is behind the API")
	st.event("agent", &eventpb.AgentObjects{Kind: "frontend", Objects: []*eventpb.AgentObject{{Key: webIP + ":81/TCP", Deleted: true}}})
	st.wantText("frontend-left-behind", "the agent has it no more: the map is behind the agent")
	st.gone(eventpb.Kind_KIND_SERVICE, "web")
	st.wantText("frontend-left-behind", "cca-dp/web (uid uid-web), which is gone")
	st.svc("web", two)
	st.wantOpen("when the port is there again")
}

// cilium#9684: no Service, no row of the agent, and count 0 in the map.
func TestFrontendOnlyInTheMap(t *testing.T) {
	st := settled(t)
	st.front(lbEntry{front: "10.43.0.99:80"})
	st.wait(4)
	st.wantOpen("in flight")
	st.wait(2)
	st.wantOpen("after the bound", "frontend-left-behind 10.43.0.99:80/TCP")
	st.row("10.43.0.99:80/TCP", "from-a-file/svc", "Done", "")
	st.wantOpen("when the agent has it of another source than Kubernetes")
}

func TestWhatIsNotLeftBehind(t *testing.T) {
	for name, head := range map[string]lbEntry{
		"a local redirect": {front: "169.254.20.10:53", proto: 17, flags: cilium.FlagLocalRedirect},
		"a wildcard":       {front: webIP + ":0"},
	} {
		t.Run(name, func(t *testing.T) {
			st := settled(t)
			st.front(head)
			st.wait(20)
			st.wantOpen("after the bound")
		})
	}
}

func hostPortPodObject(name, uid, ip, phase string) *eventpb.KubeObject {
	return &eventpb.KubeObject{Namespace: "cca-dp", Name: name, Uid: uid, Pod: &eventpb.Pod{NodeName: "lab", PodIps: []string{ip}, Phase: phase,
		Containers: []*eventpb.Container{{Ports: []*eventpb.ContainerPort{{Protocol: "TCP", Port: 8080, HostPort: 8888}}}}}}
}

// cilium#22587: the pod that had the host port has ended, and the frontend leads to it still, or is taken from the next pod.
func TestHostPortOfADeadPod(t *testing.T) {
	st := settled(t)
	pod := func(o *eventpb.KubeObject) { st.objects(eventpb.Kind_KIND_POD, o) }
	hostPort := lbEntry{front: "0.0.0.0:8888", flags: cilium.FlagHostPort}
	pod(hostPortPodObject("one", "uid-1", "10.42.0.70", "Running"))
	st.row("0.0.0.0:8888/TCP", "cca-dp/one:host-port:8888:uid-1", "Done", "", "10.42.0.70:8080/TCP")
	st.front(hostPort, lbBackend{address: "10.42.0.70:8080"})
	st.event("agent", &eventpb.AgentObjects{Kind: "endpoint", Complete: true}) // no list: endpoints are not what this is about
	ignoreEndpoints := func(when string, want ...string) {
		st.Helper()
		var got []string
		for _, f := range st.open() {
			if !strings.HasPrefix(f, "endpoint-unpaired") {
				got = append(got, f)
			}
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			st.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	st.wait(20)
	ignoreEndpoints("while it runs")

	pod(hostPortPodObject("one", "uid-1", "10.42.0.70", "Succeeded"))
	pod(hostPortPodObject("two", "uid-2", "10.42.0.71", "Running"))
	st.wait(3)
	ignoreEndpoints("in flight")
	st.wait(3)
	ignoreEndpoints("when it has ended", "frontend-left-behind 0.0.0.0:8888/TCP")
	st.wantText("frontend-left-behind", "it was of the Pod cca-dp/one (uid uid-1), which is Succeeded", "as of cca-dp/one:host-port:8888:uid-1")

	st.front(hostPort, lbBackend{address: "10.42.0.71:8080"})
	st.row("0.0.0.0:8888/TCP", "cca-dp/two:host-port:8888:uid-2", "Done", "", "10.42.0.71:8080/TCP")
	st.wait(10)
	ignoreEndpoints("when the next pod has it")

	st.gone(eventpb.Kind_KIND_POD, "one") // and the agent takes the frontend of the other
	d := servicesDelta(false)
	for slot := range uint16(2) {
		e := hostPort
		e.slot = slot
		d.Deletes = append(d.Deletes, e.bytes()[:12]...)
	}
	st.maps(d)
	st.wait(6)
	ignoreEndpoints("when the frontend is gone", "host-port-missing 8888/TCP")
	st.wantText("host-port-missing", "pod cca-dp/two (uid uid-2) has no frontend in the map")
}

func TestMissingFrontend(t *testing.T) {
	st := settled(t)
	st.svc("np", func(o *eventpb.KubeObject) {
		o.Service.Type, o.Service.ClusterIps = "NodePort", []string{"10.43.0.8", "fd00::8"}
		o.Service.IpFamilies = []string{"IPv4", "IPv6"}
		o.Service.Ports[0].NodePort = 30780
		o.Service.LoadBalancerIps = []string{"192.0.2.1"} // the cloud's own, which Cilium need not take
	})
	st.wait(4)
	st.wantOpen("in flight")
	st.wait(2)
	st.wantOpen("after the bound, without maps of IPv6", "frontend-missing 0.0.0.0:30780/TCP", "frontend-missing 10.43.0.8:80/TCP")
	st.wantText("frontend-missing", "of cca-dp/np (", "is not in the map; the agent has not got it either")
	st.front(lbEntry{front: "0.0.0.0:30780", flags: cilium.FlagNodePort})
	st.front(lbEntry{front: "10.43.0.8:80"})
	st.wantOpen("when they are there")
	st.front(lbEntry{front: "[fd00::99]:80"}) // IPv6 is on
	st.wait(6)
	st.wantOpen("with IPv6", "frontend-left-behind [fd00::99]:80/TCP", "frontend-missing [::]:30780/TCP", "frontend-missing [fd00::8]:80/TCP")
	st.row("192.0.2.1:80/TCP", "cca-dp/np", "Pending", "")
	st.wait(6)
	if !strings.Contains(strings.Join(st.open(), "|"), "frontend-missing 192.0.2.1:80/TCP") {
		t.Errorf("%q: not the address that the agent has and the map not", st.open())
	}
}

// Services that Cilium does not serve, or not here.
func TestServicesOfOthers(t *testing.T) {
	for name, change := range map[string]func(o *eventpb.KubeObject){
		"another proxy's": func(o *eventpb.KubeObject) {
			o.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
		},
		"headless":             func(o *eventpb.KubeObject) { o.Service.ClusterIps = []string{"None"} },
		"headless, by a label": func(o *eventpb.KubeObject) { o.Labels = map[string]string{"service.kubernetes.io/headless": ""} },
		"ExternalName": func(o *eventpb.KubeObject) {
			o.Service.Type, o.Service.ClusterIps, o.Service.ExternalName = "ExternalName", nil, "example.org"
		},
		"not on this node": func(o *eventpb.KubeObject) { o.Annotations = map[string]string{"service.cilium.io/node": "edge"} },
		"being deleted":    func(o *eventpb.KubeObject) { o.Deleting = true },
	} {
		t.Run(name, func(t *testing.T) {
			st := settled(t)
			st.svc("other", func(o *eventpb.KubeObject) {
				o.Service.ClusterIps, o.Service.ExternalIps = []string{"10.43.0.66"}, nil
				o.Service.Ports[0].Name = "http"
				change(o)
			})
			st.objects(eventpb.Kind_KIND_ENDPOINT_SLICE, sliceObject("other-1", "other", nil, "10.42.0.9"))
			st.wait(20)
			st.wantOpen("after the bound")
		})
	}
}

// Without kube-proxy replacement Cilium leaves NodePorts and hostPorts to kube-proxy and the CNI plugins.
func TestNodePortsAreKubeProxysWithoutReplacement(t *testing.T) {
	st := settled(t)
	st.event("agent", &eventpb.AgentObjects{Kind: "status", Complete: true, Objects: []*eventpb.AgentObject{{Json: []byte(`{"kube-proxy-replacement":{"mode":"False"}}`)}}})
	st.svc("web", func(o *eventpb.KubeObject) { o.Service.Type, o.Service.Ports[0].NodePort = "NodePort", 30780 })
	pod := hostPortPodObject("one", "uid-1", "10.42.0.70", "Running")
	st.objects(eventpb.Kind_KIND_POD, pod)
	st.wait(20)
	st.wantOpen("after the bound")
}
