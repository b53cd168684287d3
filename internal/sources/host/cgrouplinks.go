package host

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"golang.org/x/sys/unix"
)

// cgroupLinks are the links at cgroups, by id. Ids ascend, so that only new ones are opened; those at cgroups are
// read at each look, since another program can be put into a link.
type cgroupLinks struct {
	known map[uint32]hooked
	last  link.ID // what comes after it has not been seen
}

func (c *cgroupLinks) look() error {
	for id := range c.known {
		l, err := link.NewFromID(link.ID(id))
		if errors.Is(err, fs.ErrNotExist) {
			delete(c.known, id)
			continue
		}
		if err != nil {
			return err
		}
		c.take(l)
		l.Close()
	}
	all := &link.Iterator{ID: c.last}
	defer all.Close()
	for all.Next() {
		c.take(all.Link)
		c.last = all.ID
	}
	if err := all.Err(); err != nil && !errors.Is(err, unix.EAGAIN) { // one that is just being made is seen next time
		return err
	}
	return nil
}

// take reads a link. One whose cgroup is gone has the cgroup 0 and no effect.
func (c *cgroupLinks) take(l link.Link) {
	info, err := l.Info()
	if err != nil {
		return
	}
	at := info.Cgroup()
	if at == nil {
		return
	}
	if at.CgroupId == 0 || hookName(ebpf.AttachType(at.AttachType)) == "" {
		delete(c.known, uint32(info.ID))
		return
	}
	c.known[uint32(info.ID)] = hooked{at.CgroupId, ebpf.AttachType(at.AttachType), info.Program}
}

// cgroups are the ids of those that have links, ascending.
func (c *cgroupLinks) cgroups() (ids []uint64) {
	for _, h := range c.known {
		ids = append(ids, h.cgroup)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// of is the id of the link that holds a program, 0 for none.
func (c *cgroupLinks) of(h hooked) uint32 {
	for id, known := range c.known {
		if known == h {
			return id
		}
	}
	return 0
}

// at lists the programs at a cgroup that cannot be opened, in the order in which they were attached.
func (c *cgroupLinks) at(cgroup uint64) (list []*eventpb.Attachment) {
	for _, h := range cgroupHooks {
		for _, id := range slices.Sorted(maps.Keys(c.known)) {
			if l := c.known[id]; l.cgroup == cgroup && l.attach == h.attach {
				list = append(list, &eventpb.Attachment{Attach: h.name, CgroupId: cgroup, ProgramId: uint32(l.program), LinkId: id})
			}
		}
	}
	return list
}

func hookName(attach ebpf.AttachType) string {
	for _, h := range cgroupHooks {
		if h.attach == attach {
			return h.name
		}
	}
	return ""
}
