package projections

import (
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// sockets of pods and of the node are translated by programs at cgroups, each at the hook of its name.
var socketPrograms = []struct {
	attach, program, family string
	wanted                  func(c *agentConfig, replaced bool) bool // besides the family
}{
	{"cgroup_inet4_connect", "cil_sock4_connect", "IPv4", nil},
	{"cgroup_inet6_connect", "cil_sock6_connect", "IPv6", nil},
	{"cgroup_udp4_sendmsg", "cil_sock4_sendmsg", "IPv4", nil},
	{"cgroup_udp6_sendmsg", "cil_sock6_sendmsg", "IPv6", nil},
	{"cgroup_udp4_recvmsg", "cil_sock4_recvmsg", "IPv4", nil},
	{"cgroup_udp6_recvmsg", "cil_sock6_recvmsg", "IPv6", nil},
	{"cgroup_inet4_getpeername", "cil_sock4_getpeername", "IPv4", wantedPeer},
	{"cgroup_inet6_getpeername", "cil_sock6_getpeername", "IPv6", wantedPeer},
	{"cgroup_inet4_post_bind", "cil_sock4_post_bind", "IPv4", wantedBind},
	{"cgroup_inet6_post_bind", "cil_sock6_post_bind", "IPv6", wantedBind},
	{"cgroup_inet4_bind", "cil_sock4_pre_bind", "IPv4", wantedHealth},
	{"cgroup_inet6_bind", "cil_sock6_pre_bind", "IPv6", wantedHealth},
	{"cgroup_inet_sock_release", "cil_sock_release", "", wantedRelease},
}

func wantedPeer(c *agentConfig, _ bool) bool {
	return c.Socket.EnableSocketLBPeer || c.EnableSocketLBPeer
}
func wantedBind(c *agentConfig, replaced bool) bool { return replaced && c.NodePortBindProtection }
func wantedHealth(c *agentConfig, _ bool) bool {
	return c.Socket.EnableHealthDatapath || c.EnableHealthDatapath
}
func wantedRelease(c *agentConfig, _ bool) bool {
	return c.Socket.EnableSocketLBPodConnectionTermination || c.EnableSocketLBPodConnectionTermination
}

// socketLB is where the programs of socket load balancing are.
type socketLB struct {
	root      []*eventpb.Attachment // at the cgroup that all sockets are below, or at the one that the agent is told to use
	elsewhere []*eventpb.Attachment
	missing   []string // hooks at root, of those that the agent's configuration asks for
}

// socketLB is false while it is not known: the host or the agent was not read, or not all cgroups could be.
func (s *State) socketLB() (*socketLB, bool) {
	c, f := s.joins.config, s.features()
	if s.Host.Attachments == nil || c == nil || f == nil || s.Host.unreadable("cgroup", "names of programs") {
		return nil, false
	}
	found := &socketLB{}
	for _, a := range s.Host.Attachments.Attachments {
		switch {
		case !strings.HasPrefix(a.Program, "cil_sock"):
		case s.atRoot(a):
			found.root = append(found.root, a)
		default:
			found.elsewhere = append(found.elsewhere, a)
		}
	}
	if !f.SocketLB.Enabled {
		return found, true
	}
	for _, p := range socketPrograms {
		wanted := (p.family != "IPv4" || c.EnableIPv4) && (p.family != "IPv6" || c.EnableIPv6) && (p.wanted == nil || p.wanted(c, s.kubeProxyReplaced()))
		if wanted && !slices.ContainsFunc(found.root, func(a *eventpb.Attachment) bool { return a.Attach == p.attach && isProgram(a, p.program) }) {
			found.missing = append(found.missing, p.attach)
		}
	}
	return found, true
}

// atRoot says that a cgroup's programs see all sockets, as far as is known. In a node that is a container the cgroup that the agent
// is told to use has no place in a hierarchy that can be seen. Older recordings have no ids.
func (s *State) atRoot(a *eventpb.Attachment) bool {
	const top = 1
	switch {
	case a.CgroupId == top, a.CgroupId == 0 && a.Cgroup != "":
		return true
	}
	placed := strings.HasPrefix(a.Cgroup, "/sys/fs/cgroup/")
	return !placed && s.joins.config != nil && a.Cgroup == s.joins.config.CGroupRoot
}

// isProgram compares a program's name, of which the kernel alone keeps 15 characters.
func isProgram(a *eventpb.Attachment, name string) bool {
	return a.Program == name || a.Program == kernelName(name)
}

// unreadable says that a look at attached programs could not see all of what begins so.
func (h *Host) unreadable(what ...string) bool {
	return slices.ContainsFunc(h.Attachments.GetUnreadable(), func(text string) bool {
		return slices.ContainsFunc(what, func(begin string) bool { return strings.HasPrefix(text, begin) })
	})
}
