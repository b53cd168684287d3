package projections

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

func TestAddressClaimedTwice(t *testing.T) {
	st := settled(t)
	claim := func(name, ip string, port int32) {
		st.svc(name, func(o *eventpb.KubeObject) {
			o.Service.ClusterIps, o.Service.ExternalIps = nil, []string{ip}
			o.Service.Ports[0].Port = port
		})
	}
	claim("b", "192.0.2.1", 80)
	claim("c", "192.0.2.1", 81)
	claim("d", "192.0.2.2", 80)
	st.wait(20)
	st.wantOpen("with other ports and addresses")
	claim("a", "192.0.2.1", 80)
	st.row("192.0.2.1:80/TCP", "cca-dp/b", "Done", "")
	st.front(lbEntry{front: "192.0.2.1:80"})
	st.wait(2)
	st.wantOpen("in flight")
	st.wait(3)
	st.wantOpen("after the bound", "address-claimed-twice 192.0.2.1:80/TCP")
	st.wantText("address-claimed-twice", "claimed by the Services cca-dp/a, cca-dp/b; the agent serves cca-dp/b")
	st.svc("b", func(o *eventpb.KubeObject) {
		o.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
		o.Service.ClusterIps, o.Service.ExternalIps = nil, []string{"192.0.2.1"}
	})
	st.wantOpen("when one is left to another proxy")
}

// kubernetes#94505, cilium#30450: a frontend in both families and backends in one.
func TestFamilyWithoutBackends(t *testing.T) {
	st := settled(t)
	st.svc("web", func(o *eventpb.KubeObject) {
		o.Service.ClusterIps, o.Service.IpFamilies = []string{webIP, "fd00::7"}, []string{"IPv4", "IPv6"}
	})
	st.row("[fd00::7]:80/TCP", "cca-dp/web", "Done", "")
	st.front(lbEntry{front: "[fd00::7]:80"})
	st.wait(8)
	st.wantOpen("in flight")
	st.wait(3)
	st.wantOpen("after the bound", "family-without-backends cca-dp/web IPv6")
	st.wantText("family-without-backends", "[fd00::7]:80/TCP of cca-dp/web has no backends: it has no EndpointSlice of type IPv6, and 2 ready in IPv4")
	st.slice("web-6", nil, "-fd00::9")
	st.wantText("family-without-backends", "its EndpointSlices of type IPv6 have nothing ready")
	st.slice("web-6", nil, "fd00::9")
	st.wantOpen("when one is ready")
	st.front(lbEntry{front: "[fd00::7]:80"}, lbBackend{address: "[fd00::9]:8080"})
	st.row("[fd00::7]:80/TCP", "cca-dp/web", "Done", "", "[fd00::9]:8080/TCP")
	st.slice("web-6", nil, "fd00::9")
	st.wait(20)
	st.wantOpen("with backends in both")
	st.slice("web-1", nil)
	st.slice("web-6", nil)
	st.webFront()
	st.front(lbEntry{front: "[fd00::7]:80"})
	st.row("[fd00::7]:80/TCP", "cca-dp/web", "Done", "")
	st.row(webFrontend, "cca-dp/web", "Done", "")
	st.wait(20)
	st.wantOpen("without backends in either")
}

// cilium#15142: the names must match where both have one. kubernetes#109627: a port without a number is none.
func TestPortWithoutEndpoints(t *testing.T) {
	named := func(name string) func(o *eventpb.KubeObject) {
		return func(o *eventpb.KubeObject) { o.EndpointSlice.Ports[0].Name = name }
	}
	st := settled(t)
	st.svc("web", func(o *eventpb.KubeObject) { o.Service.Ports[0].Name = "http" })
	st.slice("web-1", named("http"), "10.42.0.9", "10.42.0.38")
	st.wait(20)
	st.wantOpen("with the same name")
	st.slice("web-1", named(""), "10.42.0.9", "10.42.0.38")
	st.wait(20)
	st.wantOpen("without one, which Cilium takes")
	st.slice("web-1", named("https"), "10.42.0.9", "10.42.0.38")
	st.webFront()
	st.row(webFrontend, "cca-dp/web", "Done", "")
	st.wait(2)
	st.wantOpen("in flight")
	st.wait(4)
	st.wantOpen("after the bound", "port-without-endpoints cca-dp/web 80/TCP")
	st.wantText("port-without-endpoints", `port 80/TCP (named "http") of cca-dp/web matches no port of its EndpointSlices, which have 8080/TCP (named "https")`)
	st.slice("web-1", func(o *eventpb.KubeObject) {
		o.EndpointSlice.Ports[0].Name, o.EndpointSlice.Ports[0].Port = "http", nil
	}, "10.42.0.9")
	st.wait(1)
	st.wantText("port-without-endpoints", `one without a number (named "http")`)
	st.slice("web-1", named("https"), "-10.42.0.9")
	st.wantOpen("when none is ready, which is no fault of the port's")
	st.slice("web-1", func(o *eventpb.KubeObject) { o.EndpointSlice.Ports, o.EndpointSlice.PortsNull = nil, true }, "10.42.0.9")
	st.wait(20)
	st.wantOpen("with a slice that names no ports")
}
