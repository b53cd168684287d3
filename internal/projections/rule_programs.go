package projections

import (
	"fmt"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// programHold is longer than a device and its program are apart from each other.
const programHold = 10 * time.Second

// programMissing: a device lacks a program that the agent says, by the state of its endpoints and devices, it has put there.
var programMissing = rule{
	name: "program-missing", level: LevelError, hold: programHold, needs: []string{"host", "agent"}, whole: devicesKnown,
	means: "packets pass the device without Cilium: no load balancing, no policy, no NAT; restart the agent, and see who else loads programs on the node",
	on:    []topic{topicHost, topicAgent},
	node: func(s *State) (found []problem) {
		at := s.programsByWay()
		for w, sure := range s.programsWanted() {
			if at[w] == nil && (sure || s.book.text("program-missing", w.String()) != "") {
				found = append(found, problem{subject: w.String(), text: fmt.Sprintf("%s lacks %s on its way %s", w.device, w.program, w.way)})
			}
		}
		return found
	},
}

// programDoubled: a program is at a device, or at a cgroup, more than once, of which one is an earlier agent's.
var programDoubled = rule{
	name: "program-doubled", level: LevelWarning, hold: programHold, needs: []string{"host", "agent"}, whole: devicesKnown,
	means: "the one that runs first decides, and it may be an old one with maps that nobody writes any more; detach the older (bpftool link detach, tc filter del), or restart the pod or the node",
	on:    []topic{topicHost},
	node: func(s *State) (found []problem) {
		for w, c := range s.programsByWay() {
			if c.n > 1 {
				found = append(found, problem{subject: w.String(), text: fmt.Sprintf("%s has %s on its way %s more than once (%s)", w.device, w.program, w.way, strings.Join(c.hooks, ", "))})
			}
		}
		return found
	},
}

func devicesKnown(s *State) bool {
	return s.Host.Attachments != nil && s.Host.Links != nil && !s.Host.unreadable("programs at devices", "names of programs")
}

// passage is a program on one way of packets through a device; of a cgroup the device is its path and the way its hook.
type passage struct{ device, way, program string }

func (p passage) String() string { return p.device + " " + p.way + " " + p.program }

// ways are what hooks are the same to a packet: Cilium uses one of each, by what the kernel has.
var ways = map[string]string{
	"tcx/ingress": "in", "tc/ingress": "in", "netkit/peer": "in",
	"tcx/egress": "out", "tc/egress": "out", "netkit/primary": "out",
	"xdp": "before all (XDP)",
}

// passed is how often a program is on a way, and at which hooks.
type passed struct {
	n     int
	hooks []string
}

// programsByWay are Cilium's. Of a name of 15 characters the kernel may have kept no more: it stands for those that begin so.
func (s *State) programsByWay() map[passage]*passed {
	all := map[passage]*passed{}
	for _, a := range s.Host.Attachments.GetAttachments() {
		if !strings.HasPrefix(a.Program, "cil_") {
			continue
		}
		p := passage{a.Device, ways[a.Attach], wholeName(a)}
		if a.Ifindex == 0 {
			p = passage{"cgroup " + a.Cgroup, a.Attach, a.Program}
		}
		if all[p] == nil {
			all[p] = &passed{}
		}
		all[p].n++
		all[p].hooks = appendNew(all[p].hooks, a.Attach)
	}
	return all
}

// programNames are those of Cilium at devices whose ends the kernel cuts.
var programNames = []string{"cil_from_container", "cil_to_container", "cil_from_netdev", "cil_from_overlay"}

func wholeName(a *eventpb.Attachment) string {
	for _, name := range programNames {
		if isProgram(a, name) {
			return name
		}
	}
	return a.Program
}

// programsWanted are those that the agent says it has put in place (pkg/datapath/loader: reloadEndpoint, reloadHostEndpoint,
// replaceOverlayDatapath), at the devices that there are. It is sure of those of an endpoint that is ready, and puts the others in
// place yet.
func (s *State) programsWanted() map[passage]bool {
	wanted := map[passage]bool{}
	links := map[string]int32{}
	for _, l := range s.Host.Links.GetLinks() {
		links[l.Name] = l.Index
	}
	add := func(device, way, program string, sure bool) {
		if links[device] != 0 {
			wanted[passage{device, way, program}] = sure
		}
	}
	st, c := s.joins.status, s.joins.config
	for _, e := range s.joins.endpoints {
		switch ready := e.state == "ready"; {
		case e.reserved == "host":
			add("cilium_host", "in", "cil_to_host", ready)
			add("cilium_host", "out", "cil_from_host", ready)
			add("cilium_net", "in", "cil_to_host", ready)
		case links[e.device] == e.ifindex:
			add(e.device, "in", "cil_from_container", ready)
			if c != nil && c.EnableEndpointRoutes {
				add(e.device, "out", "cil_to_container", ready)
			}
		}
	}
	if st == nil {
		return wanted
	}
	if s.kubeProxyReplaced() {
		for _, d := range st.Replacement.Devices {
			add(d.Name, "in", "cil_from_netdev", true)
			add(d.Name, "out", "cil_to_netdev", true)
		}
	}
	if st.Routing.Mode == "Tunnel" && st.Routing.Tunnel != "" {
		add("cilium_"+st.Routing.Tunnel, "in", "cil_from_overlay", true)
		add("cilium_"+st.Routing.Tunnel, "out", "cil_to_overlay", true)
	}
	return wanted
}
