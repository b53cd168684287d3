package projections

import (
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

func ofSocket(a *eventpb.Attachment) bool { return strings.HasPrefix(a.Program, "cil_sock") }

func TestSocketLBIsWhereItShouldBe(t *testing.T) {
	const root = "/run/cilium/cgroupv2"
	move := func(id uint64, path string) func(*eventpb.Attachments) {
		return func(a *eventpb.Attachments) {
			for _, x := range a.Attachments {
				if ofSocket(x) {
					x.CgroupId, x.Cgroup = id, path
				}
			}
		}
	}
	take := func(programs ...string) func(*eventpb.Attachments) {
		return func(a *eventpb.Attachments) {
			detach(a, func(x *eventpb.Attachment) bool {
				for _, p := range programs {
					if x.Program == p {
						return true
					}
				}
				return false
			})
		}
	}
	const pod = "/sys/fs/cgroup/kubepods.slice/kubepods-pod2f0c.slice/cri-containerd-31.scope"
	for _, c := range []struct {
		name   string
		change func(*eventpb.Attachments)
		want   []string
	}{
		{"nowhere", func(a *eventpb.Attachments) { detach(a, ofSocket) }, []string{"socket-lb-detached socket LB"}},
		{"in the agent's own cgroup", move(4242, pod), []string{"socket-lb-elsewhere socket LB"}},
		{"in a cgroup that is nowhere to be found", move(4242, ""), []string{"socket-lb-elsewhere socket LB"}},
		{"in a node that is a container", move(4242, root), nil},
		{"without ids, in older recordings", move(0, root), nil},
		{"without one program of IPv6", take("cil_sock6_sendmsg"), []string{"socket-lb-incomplete cgroup_udp6_sendmsg"}},
		{"without two of IPv4", take("cil_sock4_getpeername", "cil_sock4_post_bind"), []string{"socket-lb-incomplete cgroup_inet4_getpeername", "socket-lb-incomplete cgroup_inet4_post_bind"}},
		{"with names as the kernel keeps them", func(a *eventpb.Attachments) {
			for _, x := range a.Attachments {
				x.Program = x.Program[:min(15, len(x.Program))]
			}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := realNode(t)
			st.attach(c.change)
			st.pass(9)
			st.quiet("while it may be on its way")
			st.pass(2)
			st.wantOpen("after the bound", c.want...)
			// What cannot be looked at is not gone.
			before := len(st.open())
			st.attach(func(a *eventpb.Attachments) {
				detach(a, ofSocket)
				a.Unreadable = []string{"cgroup " + root + ": no such file or directory"}
			})
			st.pass(20)
			if n := len(st.open()); n != before {
				t.Errorf("%d findings while cgroups cannot be read, %d before", n, before)
			}
		})
	}
}

func TestSocketLBProgramsThatAreNotWanted(t *testing.T) {
	for _, c := range []struct {
		name     string
		field    string
		programs []string
	}{
		{"IPv6 is off", "EnableIPv6", []string{"cil_sock6_connect", "cil_sock6_sendmsg", "cil_sock6_recvmsg", "cil_sock6_getpeername", "cil_sock6_post_bind"}},
		{"NodePorts may be bound", "NodePortBindProtection", []string{"cil_sock4_post_bind", "cil_sock6_post_bind"}},
		{"peers are not translated", "EnableSocketLBPeer", []string{"cil_sock4_getpeername", "cil_sock6_getpeername"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := realNode(t)
			st.configure("config", func(o map[string]any) {
				delete(o, c.field)
				delete(o["UnsafeDaemonConfigOption"].(map[string]any), c.field)
			})
			for _, p := range c.programs {
				st.attach(func(a *eventpb.Attachments) {
					if detach(a, func(x *eventpb.Attachment) bool { return x.Program == p }) != 1 {
						t.Fatalf("no program %s", p)
					}
				})
			}
			st.pass(15)
			st.quiet("after the bound")
		})
	}
}

// What agents with other options say.
func TestReplacementAndCoverage(t *testing.T) {
	for name, want := range map[string][]string{
		"default": nil, "hybrid": nil, "hostns": {"socket-lb-coverage socket LB"}, "off": {"replacement-off kube-proxy-replacement"},
	} {
		t.Run(name, func(t *testing.T) {
			st := tell(t)
			st.agent(readAgent(t, name))
			st.wait(5)
			st.wantOpen("after the bound", want...)
			if name == "off" {
				st.wantText("replacement-off", "also of the node's own processes")
			}
			st.agent(readAgent(t, "default"))
			st.quiet("when the agent was started with the usual options")
		})
	}
	st := tell(t)
	st.agent(readAgent(t, "default"))
	st.configure("status", func(o map[string]any) {
		o["kube-proxy-replacement"].(map[string]any)["features"].(map[string]any)["socketLB"] = map[string]any{}
	})
	st.now = 0
	st.wait(5)
	st.wantOpen("socket LB is off", "socket-lb-coverage socket LB")
}
