package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// dumpTries is how often a list is read again when it changed while it was read.
const dumpTries = 30

// links is the topic of network devices. Other topics take their list from it.
type links struct {
	list []netlink.Link // in order of index
	last *eventpb.Links
}

func (l *links) look(_ context.Context, out *eventpb.HostState) error {
	list, err := whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	slices.SortFunc(list, func(a, b netlink.Link) int { return a.Attrs().Index - b.Attrs().Index })
	l.list = list
	now := &eventpb.Links{}
	for _, link := range list {
		now.Links = append(now.Links, linkFact(link))
	}
	if l.last == nil || !proto.Equal(now, l.last) {
		l.last, out.Links = now, now
	}
	return nil
}

// linkFact counts a device as up when it is switched on and has a carrier.
func linkFact(link netlink.Link) *eventpb.Link {
	a := link.Attrs()
	const up = unix.IFF_UP | unix.IFF_LOWER_UP
	f := &eventpb.Link{
		Index: int32(a.Index),
		Name:  a.Name,
		Type:  link.Type(),
		Up:    a.RawFlags&up == up,
		Mac:   a.HardwareAddr.String(),
	}
	if f.Type == "veth" || f.Type == "netkit" {
		f.PeerIndex = int32(a.ParentIndex)
	}
	return f
}

// whole repeats a dump that the kernel says was interrupted by a change.
func whole[T any](dump func() ([]T, error)) (list []T, err error) {
	for range dumpTries {
		list, err = dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}
