package projections

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

func at(device, program string) func(*eventpb.Attachment) bool {
	return func(a *eventpb.Attachment) bool { return a.Device == device && a.Program == program }
}

// cilium#21345: a program is missing though the command that loaded it said nothing.
func TestProgramsAtDevices(t *testing.T) {
	pod := realNode(t).podDevice()
	drop := func(device, program string) func(*testing.T, *story) {
		return func(t *testing.T, st *story) {
			st.attach(func(a *eventpb.Attachments) {
				if detach(a, at(device, program)) != 1 {
					t.Fatalf("%s has no %s", device, program)
				}
			})
		}
	}
	again := func(device, program, hook string) func(*testing.T, *story) {
		return func(t *testing.T, st *story) {
			st.attach(func(a *eventpb.Attachments) {
				for i, x := range a.Attachments {
					if at(device, program)(x) {
						other := proto.CloneOf(x)
						other.Attach, other.ProgramId, other.MapIds = hook, x.ProgramId+1000, nil
						a.Attachments = append(a.Attachments[:i+1:i+1], append([]*eventpb.Attachment{other}, a.Attachments[i+1:]...)...)
						return
					}
				}
				t.Fatalf("%s has no %s", device, program)
			})
		}
	}
	type step = func(*testing.T, *story)
	for _, c := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"a pod's", []step{drop(pod, "cil_from_container")}, "program-missing " + pod + " in cil_from_container"},
		{"a device's egress", []step{drop("eth0", "cil_to_netdev")}, "program-missing eth0 out cil_to_netdev"},
		{"the host's", []step{drop("cilium_net", "cil_to_host")}, "program-missing cilium_net in cil_to_host"},
		{"the tunnel's", []step{drop("cilium_vxlan", "cil_from_overlay")}, "program-missing cilium_vxlan in cil_from_overlay"},
		{"another agent's", []step{func(t *testing.T, st *story) {
			st.attach(func(a *eventpb.Attachments) {
				for _, x := range a.Attachments {
					if at(pod, "cil_from_container")(x) {
						x.Program = "calico_from_wor"
					}
				}
			})
		}}, "program-missing " + pod + " in cil_from_container"},
		{"by classic tc", []step{func(t *testing.T, st *story) {
			st.attach(func(a *eventpb.Attachments) {
				for _, x := range a.Attachments {
					if x.Device == pod {
						x.Attach, x.Program = "tc/ingress", "cil_from_contai"
					}
				}
			})
		}}, ""},
		{"of an endpoint that is being made", []step{func(t *testing.T, st *story) {
			for key, e := range st.s.joins.endpoints {
				if e.device == pod {
					st.then("agent", &eventpb.AgentObjects{Kind: "endpoint", Objects: []*eventpb.AgentObject{{Key: key, Json: []byte(`{"id":` + key + `,"status":{"state":"waiting-for-identity"}}`)}}})
				}
			}
		}, drop(pod, "cil_from_container")}, ""},
		{"of a device that is gone", []step{func(t *testing.T, st *story) {
			links := &eventpb.Links{}
			for _, l := range st.s.Host.Links.Links {
				if l.Name != pod {
					links.Links = append(links.Links, l)
				}
			}
			st.then("host", &eventpb.HostState{Links: links})
		}, drop(pod, "cil_from_container")}, ""},
		{"twice at a hook", []step{again(pod, "cil_from_container", "tcx/ingress")}, "program-doubled " + pod + " in cil_from_container"},
		{"at tcx and by classic tc", []step{again("eth0", "cil_from_netdev", "tc/ingress")}, "program-doubled eth0 in cil_from_netdev"},
		{"twice at a cgroup", []step{again("", "cil_sock4_connect", "cgroup_inet4_connect")}, "program-doubled cgroup /run/cilium/cgroupv2 cgroup_inet4_connect cil_sock4_connect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := realNode(t)
			for _, step := range c.steps {
				step(t, st)
			}
			st.pass(9)
			st.quiet("while it may be on its way")
			st.pass(2)
			if c.want == "" {
				st.quiet("after the bound")
				return
			}
			st.wantOpen("after the bound", c.want)
			st.attach(func(a *eventpb.Attachments) { a.Unreadable = []string{"programs at devices: operation not permitted"} })
			st.wantOpen("while devices cannot be looked at", c.want)
		})
	}
}

func TestProgramsThatTheAgentDoesNotPromise(t *testing.T) {
	st := realNode(t)
	st.replacement("False")
	st.attach(func(a *eventpb.Attachments) { detach(a, at("eth0", "cil_to_netdev")) })
	st.pass(15)
	st.wantOpen("without replacement devices need none", "replacement-off kube-proxy-replacement")
	st = realNode(t)
	st.configure("config", func(o map[string]any) { o["EnableEndpointRoutes"] = true })
	st.pass(15)
	if got := st.open(); len(got) < 4 {
		t.Errorf("with routes for each endpoint their devices need programs on the way out, found missing: %q", got)
	}
}
