package projections

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

func (st *story) node() (f nodeFile) {
	st.Helper()
	text := []byte(st.text("node.json"))
	validate(st.T, "node.json", text)
	if err := json.Unmarshal(text, &f); err != nil {
		st.Fatal(err)
	}
	return f
}

// What `cilium-dbg status --verbose` printed as KubeProxyReplacement Details, of agents with several options.
func TestNodeSaysWhatTheAgentPrints(t *testing.T) {
	for _, name := range []string{"default", "hybrid", "off", "hostns"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/replacement/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			st := tell(t)
			st.agent(readAgent(t, name))
			if diff := cmp.Diff(details(string(text)), printed(st.node())); diff != "" {
				t.Errorf("cilium-dbg (-), node.json (+):\n%s", diff)
			}
		})
	}
}

// details are the lines "Name: value", and the annotations under that name.
func details(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.Trim(line, " -\n")
		if strings.HasPrefix(line, "service.cilium.io/") {
			all["Annotations"] = strings.TrimSpace(all["Annotations"] + " " + line)
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		if value = strings.Join(strings.Fields(value), " "); value != "" && value != "(n/a)" {
			all[name] = value
		}
	}
	return all
}

// printed is node.json in the words of cilium-dbg.
func printed(f nodeFile) map[string]string {
	r := f.Replacement
	on := func(b *bool) string {
		if *b {
			return "Enabled"
		}
		return "Disabled"
	}
	all := map[string]string{
		"Status": *r.Mode, "Socket LB": on(f.SocketLB.Enabled), "Socket LB Tracing": on(f.SocketLB.Tracing), "Socket LB Coverage": *f.SocketLB.Coverage,
		"Session Affinity": on(r.SessionAffinity), "NAT46/64 Support": on(r.NAT46Services), "ClusterIP": "Enabled", "NodePort": on(r.NodePort),
		"LoadBalancer": on(r.LoadBalancer), "externalIPs": on(r.ExternalIPs), "HostPort": on(r.HostPort),
	}
	if len(r.Annotations) > 0 {
		all["Annotations"] = strings.Join(r.Annotations, " ")
	}
	if *r.Mode == "False" {
		return all // of devices and the like cilium-dbg prints nothing then
	}
	var devices []string
	for _, d := range r.Devices {
		text := d.Name + " " + strings.Join(d.Addresses, " ")
		if d.DirectRouting {
			text += " (Direct Routing)"
		}
		devices = append(devices, text)
	}
	all["Devices"], all["Mode"], all["XDP Acceleration"] = strings.Join(devices, " "), *r.Forwarding, *r.XDPAcceleration
	all["Backend Selection"] = *r.BackendSelection
	if r.MaglevTableSize != nil {
		all["Backend Selection"] += fmt.Sprintf(" (Table Size: %d)", *r.MaglevTableSize)
	}
	if r.DSRDispatch != nil {
		all["DSR Dispatch Mode"] = *r.DSRDispatch
	}
	all["NodePort"] += " (Range: " + *r.NodePortRange + ")"
	return all
}

// A real node's kernel.
func TestNodeOfTheHost(t *testing.T) {
	st := realNode(t)
	f := st.node()
	if *f.Name != "lab" || f.Zone != nil || *f.Routing.Mode != "Tunnel" || *f.Routing.Tunnel != "vxlan" {
		t.Errorf("the node %s in zone %v, routing %+v", *f.Name, f.Zone, f.Routing)
	}
	var hooks []string
	for _, p := range f.SocketLB.Programs {
		if !p.AtRoot || *p.Cgroup != "/run/cilium/cgroupv2" || *p.CgroupID != 1 || p.Order != 1 || p.ID == 0 || !strings.HasPrefix(p.Program, "cil_sock") {
			t.Errorf("a program at a cgroup: %+v", p)
		}
		family := "both"
		if p.Family != nil {
			family = *p.Family
		}
		hooks = append(hooks, p.Attach+" "+family)
	}
	slices.Sort(hooks)
	want := []string{
		"cgroup_inet4_connect IPv4", "cgroup_inet4_getpeername IPv4", "cgroup_inet4_post_bind IPv4", "cgroup_inet6_connect IPv6",
		"cgroup_inet6_getpeername IPv6", "cgroup_inet6_post_bind IPv6", "cgroup_inet_sock_release both", "cgroup_udp4_recvmsg IPv4",
		"cgroup_udp4_sendmsg IPv4", "cgroup_udp6_recvmsg IPv6", "cgroup_udp6_sendmsg IPv6",
	}
	if diff := cmp.Diff(want, hooks); diff != "" {
		t.Errorf("programs at cgroups (-want +got):\n%s", diff)
	}
	if len(f.SocketLB.Missing) != 0 || *f.SocketLB.CgroupRoot != "/run/cilium/cgroupv2" {
		t.Errorf("socket LB: missing %q, root %s", f.SocketLB.Missing, *f.SocketLB.CgroupRoot)
	}
	var rules []string
	for _, r := range f.IPTables {
		rules = append(rules, fmt.Sprintf("%s %s %s svc=%d", r.Command, r.Family, *r.Backend, r.KubeSvcLines))
		if plain := *r.Backend == "nft"; plain != (r.CiliumLines > 0) || plain != (r.KubeLines > 0) || r.UnreadableFor != nil {
			t.Errorf("rules: %+v", r)
		}
	}
	if diff := cmp.Diff([]string{"ip6tables-save IPv6 nft svc=0", "iptables-legacy-save IPv4 legacy svc=0", "iptables-save IPv4 nft svc=0"}, rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	known := slices.ContainsFunc(f.Neighbours.Kernel, func(n neighbourRow) bool {
		return n.Address == "192.168.96.1" && n.Device == "eth0" && n.MAC != nil && n.State == "VALID"
	})
	if !known {
		t.Errorf("neighbours without the client outside the cluster: %+v", f.Neighbours)
	}
	if f.NodePortNeighbours == nil || f.Health != nil {
		t.Errorf("neighbours of NodePorts %v, health %v", f.NodePortNeighbours, f.Health)
	}
}

func TestNodeWaits(t *testing.T) {
	st := tell(t)
	if f := st.node(); f.Name != nil || f.Replacement != nil || f.SocketLB != nil || f.IPTables != nil || f.Neighbours != nil || f.NodePortNeighbours != nil {
		t.Errorf("what is not known: %+v", f)
	}
	text := st.text("session.json")
	for _, what := range []string{"the node", waitStatus, waitConfig, "the programs at cgroups", "the rules of iptables", "the kernel's neighbours", "the maps of nodeport neighbours"} {
		if !strings.Contains(text, `"`+what+`"`) {
			t.Errorf("session.json does not say that node.json waits for %s", what)
		}
	}
}

// Clients of NodePorts are many: the file lists some, and counts the others.
func TestNodePortNeighbours(t *testing.T) {
	st := tell(t)
	d := &eventpb.MapDelta{Map: "cilium_nodeport_neigh4", Type: "LRUHash", KeySize: 4, ValueSize: 8, MaxEntries: 221719, Complete: true}
	for i := range maxNeighbours + 3 {
		d.Upserts = append(d.Upserts, 10, 9, byte(i>>8), byte(i), 0xde, 0x0d, 0x77, 0xd8, 0xb4, byte(i), 0, 0)
	}
	st.maps(d)
	if n := st.node().NodePortNeighbours; len(n.Clients) != maxNeighbours || n.Omitted != 3 || n.Clients[1] != (nodePortMAC{"10.9.0.1", "de:0d:77:d8:b4:01"}) {
		t.Errorf("%d clients, %d omitted, the second is %v", len(n.Clients), n.Omitted, n.Clients[1])
	}
	if k := cilium.KindOf(d.Map); k != cilium.Neighbors4 {
		t.Errorf("kind %d", k)
	}
}
