package host

import (
	"fmt"
	"maps"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// cgroupHooks are those of socket load balancing, spelled as bpftool and libbpf do.
var cgroupHooks = [...]struct {
	name   string
	attach ebpf.AttachType
}{
	{"cgroup_inet4_connect", ebpf.AttachCGroupInet4Connect},
	{"cgroup_inet6_connect", ebpf.AttachCGroupInet6Connect},
	{"cgroup_inet4_post_bind", ebpf.AttachCGroupInet4PostBind},
	{"cgroup_inet6_post_bind", ebpf.AttachCGroupInet6PostBind},
	{"cgroup_udp4_sendmsg", ebpf.AttachCGroupUDP4Sendmsg},
	{"cgroup_udp6_sendmsg", ebpf.AttachCGroupUDP6Sendmsg},
	{"cgroup_udp4_recvmsg", ebpf.AttachCGroupUDP4Recvmsg},
	{"cgroup_udp6_recvmsg", ebpf.AttachCGroupUDP6Recvmsg},
	{"cgroup_inet4_getpeername", ebpf.AttachCgroupInet4GetPeername},
	{"cgroup_inet6_getpeername", ebpf.AttachCgroupInet6GetPeername},
	{"cgroup_inet_sock_release", ebpf.AttachCgroupInetSockRelease},
}

// hooked is one program at one hook of the cgroup.
type hooked struct {
	attach  ebpf.AttachType
	program ebpf.ProgramID
}

// cgroup looks at the programs of one cgroup.
type cgroup struct {
	root string
	// links are ids of the links that hold the programs. A query by cgroup does not tell them, so they are
	// looked up among all links, and again only when the programs change.
	links map[hooked]uint32
}

func (c *cgroup) attachments() ([]*eventpb.Attachment, error) {
	dir, err := os.Open(c.root)
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	defer dir.Close()
	var list []*eventpb.Attachment
	ids := map[hooked]uint32{}
	changed := false
	for _, h := range cgroupHooks {
		found, err := query(int(dir.Fd()), h.attach)
		if err != nil {
			return nil, fmt.Errorf("query programs: %w", err)
		}
		for _, p := range found {
			at := hooked{h.attach, p.ID}
			id, known := c.links[at]
			changed = changed || !known
			ids[at] = id
			list = append(list, &eventpb.Attachment{Attach: h.name, Cgroup: c.root, ProgramId: uint32(p.ID)})
		}
	}
	if changed {
		maps.Copy(ids, cgroupLinks())
	}
	c.links = ids
	for i, p := range list {
		list[i].LinkId = ids[hooked{attachOf(p.Attach), ebpf.ProgramID(p.ProgramId)}]
	}
	return list, nil
}

func attachOf(name string) ebpf.AttachType {
	for _, h := range cgroupHooks {
		if h.name == name {
			return h.attach
		}
	}
	return ebpf.AttachNone
}

// cgroupLinks lists all links at cgroups. What cannot be read is left out: a link's id is a help, not a need.
func cgroupLinks() map[hooked]uint32 {
	ids := map[hooked]uint32{}
	all := &link.Iterator{}
	defer all.Close()
	for all.Next() {
		info, err := all.Link.Info()
		if err != nil {
			continue
		}
		if c := info.Cgroup(); c != nil {
			ids[hooked{ebpf.AttachType(c.AttachType), info.Program}] = uint32(info.ID)
		}
	}
	return ids
}
