package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// maxNeighbours is how many neighbours an event holds.
const maxNeighbours = 4096

// neighbours is the topic of the kernel's tables of link addresses, of IPv4 and IPv6.
type neighbours struct {
	links *links
	last  *eventpb.Neighbours
}

func (n *neighbours) look(_ context.Context, out *eventpb.HostState) error {
	now, err := n.find()
	switch {
	case errors.Is(err, netlink.ErrDumpInterrupted):
		return nil // a torn list would take neighbours away that are there; what tears it rings the bell
	case err != nil:
		return err
	}
	if n.last == nil || !proto.Equal(now, n.last) {
		n.last, out.Neighbours = now, now
	}
	return nil
}

func (n *neighbours) find() (*eventpb.Neighbours, error) {
	list, err := listNeighbours(0)
	if err != nil {
		return nil, err
	}
	proxies, err := listNeighbours(netlink.NTF_PROXY) // which the kernel lists only by themselves
	if err != nil {
		return nil, err
	}
	devices := map[int]*netlink.LinkAttrs{}
	for _, l := range n.links.list {
		devices[l.Attrs().Index] = l.Attrs()
	}
	list = slices.DeleteFunc(append(list, proxies...), func(e netlink.Neigh) bool { return !isNeighbour(e, devices[e.LinkIndex]) })
	slices.SortFunc(list, func(a, b netlink.Neigh) int {
		return cmp.Or(cmp.Compare(a.LinkIndex, b.LinkIndex), addrOf(a.IP).Compare(addrOf(b.IP)), cmp.Compare(a.Flags, b.Flags))
	})
	now := &eventpb.Neighbours{Omitted: uint32(max(0, len(list)-maxNeighbours))}
	for _, e := range list[:min(len(list), maxNeighbours)] {
		now.Neighbours = append(now.Neighbours, neighbourFact(e, devices[e.LinkIndex]))
	}
	return now, nil
}

func listNeighbours(flags uint8) ([]netlink.Neigh, error) {
	list, err := whole(func() ([]netlink.Neigh, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.AddData(&netlink.Ndmsg{Flags: flags})
		messages, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
		var list []netlink.Neigh
		for _, m := range messages {
			if e, err := netlink.NeighDeserialize(m); err == nil {
				list = append(list, *e)
			}
		}
		return list, err
	})
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	return list, nil
}

// isNeighbour leaves out what the kernel makes for addresses that are not another machine's, and what is not of
// IPv4 or IPv6.
func isNeighbour(e netlink.Neigh, device *netlink.LinkAttrs) bool {
	switch {
	case e.Family != unix.AF_INET && e.Family != unix.AF_INET6, !addrOf(e.IP).IsValid():
		return false
	case device != nil && device.RawFlags&unix.IFF_LOOPBACK != 0, e.IP.IsLoopback():
		return false
	}
	// In a network without any address of its own the kernel takes all for broadcast.
	broadcast := e.Type == unix.RTN_BROADCAST && e.State == netlink.NUD_NOARP
	return !e.IP.IsMulticast() && !broadcast
}

// addrOf is an address that compares by family and number.
func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// neighbourStates are spelled as `ip neigh` does, but for those that follow each other all the time.
var neighbourStates = map[int]string{
	netlink.NUD_NONE: "NONE", netlink.NUD_INCOMPLETE: "INCOMPLETE", netlink.NUD_FAILED: "FAILED", netlink.NUD_NOARP: "NOARP",
	netlink.NUD_PERMANENT: "PERMANENT",
	netlink.NUD_REACHABLE: "VALID", netlink.NUD_STALE: "VALID", netlink.NUD_DELAY: "VALID", netlink.NUD_PROBE: "VALID",
}

func neighbourFact(e netlink.Neigh, device *netlink.LinkAttrs) *eventpb.Neighbour {
	f := &eventpb.Neighbour{Ifindex: int32(e.LinkIndex), Address: addrOf(e.IP).String(), Mac: e.HardwareAddr.String(),
		State: neighbourStates[e.State]}
	if device != nil {
		f.Device = device.Name
	}
	if f.State == "" {
		f.State = fmt.Sprintf("%#x", e.State)
	}
	if e.Flags&netlink.NTF_EXT_LEARNED != 0 {
		f.Flags = append(f.Flags, "extern_learn")
	}
	if e.FlagsExt&netlink.NTF_EXT_MANAGED != 0 {
		f.Flags = append(f.Flags, "managed")
	}
	if e.Flags&netlink.NTF_PROXY != 0 {
		f.Flags = append(f.Flags, "proxy")
	}
	if e.Flags&netlink.NTF_ROUTER != 0 {
		f.Flags = append(f.Flags, "router")
	}
	return f
}
