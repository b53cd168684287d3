package host

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// cgroupHooks are those at which socket load balancing can stand, spelled as bpftool and libbpf do.
var cgroupHooks = [...]struct {
	name   string
	attach ebpf.AttachType
}{
	{"cgroup_inet4_connect", ebpf.AttachCGroupInet4Connect},
	{"cgroup_inet6_connect", ebpf.AttachCGroupInet6Connect},
	{"cgroup_inet4_bind", ebpf.AttachCGroupInet4Bind},
	{"cgroup_inet6_bind", ebpf.AttachCGroupInet6Bind},
	{"cgroup_inet4_post_bind", ebpf.AttachCGroupInet4PostBind},
	{"cgroup_inet6_post_bind", ebpf.AttachCGroupInet6PostBind},
	{"cgroup_udp4_sendmsg", ebpf.AttachCGroupUDP4Sendmsg},
	{"cgroup_udp6_sendmsg", ebpf.AttachCGroupUDP6Sendmsg},
	{"cgroup_udp4_recvmsg", ebpf.AttachCGroupUDP4Recvmsg},
	{"cgroup_udp6_recvmsg", ebpf.AttachCGroupUDP6Recvmsg},
	{"cgroup_inet4_getpeername", ebpf.AttachCgroupInet4GetPeername},
	{"cgroup_inet6_getpeername", ebpf.AttachCgroupInet6GetPeername},
	{"cgroup_inet4_getsockname", ebpf.AttachCgroupInet4GetSockname},
	{"cgroup_inet6_getsockname", ebpf.AttachCgroupInet6GetSockname},
	{"cgroup_inet_sock_release", ebpf.AttachCgroupInetSockRelease},
}

// hooked is one program at one hook of one cgroup.
type hooked struct {
	cgroup  uint64
	attach  ebpf.AttachType
	program ebpf.ProgramID
}

// cgroups looks for programs at the cgroup that socket load balancing is told to use, at those above it, and wherever
// a link leads: an agent that runs in a cgroup namespace of its own can take its own cgroup for the root, and then no
// pod is below its programs. One that was attached elsewhere without a link, as before Linux 5.7, is not found.
type cgroups struct {
	root  string
	tree  cgroupTree
	links cgroupLinks
}

// cgroupsByID is what is missed of cgroups that have to be opened by id: their paths, and what stands at them without a
// link.
const cgroupsByID = "cgroup by its id"

func newCgroups(cfg Config) *cgroups {
	return &cgroups{root: cfg.CgroupRoot, tree: cgroupTree{root: cfg.CgroupRoot, proc: cfg.Proc}, links: cgroupLinks{known: map[uint32]hooked{}}}
}

func (c *cgroups) attachments(missed func(string, error)) (list []*eventpb.Attachment) {
	if err := c.links.look(); err != nil {
		missed("cgroup links", err)
	}
	looked := map[uint64]bool{}
	look := func(dir *cgroupDir) error {
		defer dir.Close()
		if looked[dir.id] {
			return nil
		}
		found, err := c.at(dir)
		if err != nil {
			return err
		}
		looked[dir.id] = true
		list = append(list, found...)
		return nil
	}
	byID := func(err error) {
		if errors.Is(err, fs.ErrPermission) {
			missed(cgroupsByID, err)
		}
	}
	root, err := openCgroup(c.root)
	if err == nil {
		byID(c.tree.name(root))
		above := c.tree.above(root)
		err = look(root)
		for _, dir := range above {
			if err := look(dir); err != nil {
				missed("cgroup "+dir.name, err)
			}
		}
	}
	if err != nil {
		missed("cgroup "+c.root, err)
	}
	for _, id := range c.links.cgroups() {
		if looked[id] {
			continue
		}
		dir, err := c.tree.open(id)
		if err == nil && look(dir) == nil {
			continue
		}
		byID(err)
		list = append(list, c.links.at(id)...)
	}
	return list
}

// at lists the programs at one cgroup.
func (c *cgroups) at(dir *cgroupDir) (list []*eventpb.Attachment, err error) {
	for _, h := range cgroupHooks {
		found, err := query(int(dir.Fd()), h.attach)
		if err != nil {
			return nil, fmt.Errorf("query programs: %w", err)
		}
		for _, p := range found {
			list = append(list, &eventpb.Attachment{Attach: h.name, Cgroup: dir.name, CgroupId: dir.id, ProgramId: uint32(p.ID),
				LinkId: c.links.of(hooked{dir.id, h.attach, p.ID})})
		}
	}
	return list, nil
}
