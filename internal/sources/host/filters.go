package host

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// kernelName is how much of a program's name the kernel keeps, and tc prints.
const kernelName = 15

// filters is the topic of classic tc filters. Netlink tells cheaply whether there are any, which with tcx there
// are not; how they read is left to tc itself.
type filters struct {
	links *links
	list  []deviceFilters // in order of device, ingress first
	last  *eventpb.TCFilters
}

type deviceFilters struct {
	link      *netlink.LinkAttrs
	direction string
	filters   []netlink.Filter
}

var tcParents = [...]struct {
	direction string
	parent    uint32
}{
	{"ingress", netlink.HANDLE_MIN_INGRESS},
	{"egress", netlink.HANDLE_MIN_EGRESS},
}

func (f *filters) look(ctx context.Context, out *eventpb.HostState) error {
	list, err := listFilters(f.links.list)
	if err != nil {
		return err
	}
	f.list = list
	now := &eventpb.TCFilters{}
	for _, d := range list {
		now.Filters = append(now.Filters, &eventpb.TCFilter{
			Ifindex:   int32(d.link.Index),
			Device:    d.link.Name,
			Direction: d.direction,
			Lines:     tcLines(ctx, d),
		})
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.last == nil || !proto.Equal(now, f.last) {
		f.last, out.TcFilters = now, now
	}
	return nil
}

// listFilters leaves out devices without filters and those that went while it looked.
func listFilters(links []netlink.Link) ([]deviceFilters, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	var list []deviceFilters
	for _, link := range links {
		for _, p := range tcParents {
			found, err := whole(func() ([]netlink.Filter, error) { return h.FilterList(link, p.parent) })
			switch {
			case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
				continue // gone, without such a qdisc, or a kernel without tc
			case err != nil:
				return nil, fmt.Errorf("list tc filters of %s: %w", link.Attrs().Name, err)
			case len(found) > 0:
				list = append(list, deviceFilters{link.Attrs(), p.direction, found})
			}
		}
	}
	return list, nil
}

// tcLines are the lines of `tc filter show dev D DIRECTION`, or where tc is not installed the same lines made
// from what netlink says.
func tcLines(ctx context.Context, d deviceFilters) []string {
	if path, err := exec.LookPath("tc"); err == nil {
		stdout, _, err := output(ctx, path, "filter", "show", "dev", d.link.Name, d.direction)
		if err == nil && stdout != "" {
			return strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		}
	}
	return composeTC(d.filters)
}

// composeTC writes filters as tc does: first the line of their priority, then one for each. Of kinds other than
// bpf it knows no more than that.
func composeTC(filters []netlink.Filter) (lines []string) {
	last := ""
	for _, f := range filters {
		a := f.Attrs()
		chain := uint32(0)
		if a.Chain != nil {
			chain = *a.Chain
		}
		head := fmt.Sprintf("filter protocol %s pref %d %s chain %d ", protocolName(a.Protocol), a.Priority, f.Type(), chain)
		if head != last {
			lines = append(lines, head)
			last = head
		}
		lines = append(lines, head+fmt.Sprintf("handle %#x ", a.Handle)+bpfText(f))
	}
	return lines
}

func bpfText(f netlink.Filter) string {
	b, ok := f.(*netlink.BpfFilter)
	if !ok {
		return ""
	}
	text := b.Name + " "
	if b.DirectAction {
		text += "direct-action "
	}
	text += fmt.Sprintf("not_in_hw id %d ", b.Id)
	if p, err := readProgram(ebpf.ProgramID(b.Id)); err == nil && p.name != "" {
		text += "name " + p.name[:min(len(p.name), kernelName)] + " "
	}
	return text + "tag " + b.Tag + " jited "
}

func protocolName(p uint16) string {
	switch p {
	case unix.ETH_P_ALL:
		return "all"
	case unix.ETH_P_IP:
		return "ip"
	case unix.ETH_P_IPV6:
		return "ipv6"
	}
	return fmt.Sprintf("[%d]", p)
}
