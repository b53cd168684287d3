package projections

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// drops are the packets of one path that were dropped for one reason, until none was for dropQuiet.
type drops struct {
	count           uint64
	firstNs, lastNs int64
	// Of the last one: its ends, to as frontends are written, and who else has the backend that it goes to.
	from, to string
	also     []string
}

type dropKey struct {
	path   string // the Service, or the pod with a hostPort
	reason flowpb.DropReason
}

// dropQuiet is how long after the last dropped packet its finding lasts.
const dropQuiet = time.Minute

// maxDrops bounds how many paths and reasons are told apart; those beyond are told of together.
const (
	maxDrops   = 256
	otherPaths = "other Services"
)

// applyFlows counts flows, and takes in those that were dropped on the way to or from a Service. The observer's ring has
// some from before the recording.
func (s *State) applyFlows(b *eventpb.Flows) {
	s.Flows += uint64(len(b.Flows))
	for _, f := range b.Flows {
		at := min(cmp.Or(f.TimeNs, s.SeenNs), s.SeenNs)
		if !isDropped(f.Flow) || s.SeenNs-at >= int64(dropQuiet) {
			continue
		}
		h := &flowpb.Flow{}
		if proto.Unmarshal(f.Flow, h) == nil {
			s.applyDrop(h, at)
		}
	}
}

func (s *State) applyDrop(f *flowpb.Flow, at int64) {
	src, dst, ok := endsOf(f)
	if !ok {
		return
	}
	paths := s.pathsOf(f, src, dst)
	for i, path := range paths {
		k := dropKey{path, f.DropReasonDesc}
		if s.drops[k] == nil && len(s.drops) >= maxDrops {
			k.path = otherPaths
		}
		d := s.drops[k]
		if d == nil {
			d = &drops{firstNs: at}
			s.drops[k] = d
		}
		if d.count++; d.count == 1 || at >= d.lastNs {
			d.lastNs, d.from, d.to, d.also = at, src.address.String(), dst.String(), without(paths, i)
			if pod := f.GetSource().GetPodName(); pod != "" {
				d.from += " (" + Name{f.Source.Namespace, pod}.String() + ")"
			}
		}
		s.touch(topicDrops)
	}
}

// without is a list less one; nil for the only one.
func without(list []string, i int) []string {
	if len(list) == 1 {
		return nil
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}

// endsOf are the ends of a packet of TCP, UDP or SCTP.
func endsOf(f *flowpb.Flow) (src, dst l4, ok bool) {
	var from, to uint32
	var p cilium.Proto
	switch t := f.GetL4(); {
	case t.GetTCP() != nil:
		p, from, to = cilium.TCP, t.GetTCP().SourcePort, t.GetTCP().DestinationPort
	case t.GetUDP() != nil:
		p, from, to = cilium.UDP, t.GetUDP().SourcePort, t.GetUDP().DestinationPort
	case t.GetSCTP() != nil:
		p, from, to = cilium.SCTP, t.GetSCTP().SourcePort, t.GetSCTP().DestinationPort
	default:
		return l4{}, l4{}, false
	}
	a, errA := netip.ParseAddr(f.GetIP().GetSource())
	b, errB := netip.ParseAddr(f.GetIP().GetDestination())
	return l4{netip.AddrPortFrom(a, uint16(from)), p}, l4{netip.AddrPortFrom(b, uint16(to)), p}, errA == nil && errB == nil
}

// hostIdentity is Cilium's number for the node itself, whose kubelet asks pods for their health past every Service.
const hostIdentity = 1

// pathsOf are the Services (or pods with a hostPort) whose connection a packet is of: by its frontend, else by the backend
// that it goes to, which may be one of several Services, else as one that comes back.
func (s *State) pathsOf(f *flowpb.Flow, src, dst l4) []string {
	if path, ok := s.frontedBy(dst); ok {
		return []string{path}
	}
	if v := f.GetDestinationService(); v.GetName() != "" {
		return []string{Name{v.Namespace, v.Name}.String()}
	}
	if f.GetSource().GetIdentity() != hostIdentity {
		if paths := s.backedBy(dst); len(paths) > 0 {
			return paths
		}
	}
	if path, ok := s.frontedBy(src); ok {
		return []string{path}
	}
	if f.GetIsReply().GetValue() {
		return s.backedBy(src)
	}
	return nil
}

// frontedBy is whose frontend an address is. A Service has its addresses with all their ports.
func (s *State) frontedBy(at l4) (string, bool) {
	for _, proto := range []cilium.Proto{at.proto, cilium.Any} {
		if o, ok := s.owner(frontendKey{address: at.address, proto: proto}); ok {
			return o.path(), true
		}
	}
	if names := s.joins.addresses[at.address.Addr()]; len(names) > 0 {
		return names[0].String(), true
	}
	return "", false
}

func (o Owner) path() string {
	if o.Kind == "Service" {
		return o.Name.String()
	}
	return strings.ToLower(o.Kind) + " " + o.Name.String()
}

// backedBy are those in whose slots an address is, or was a short while ago: packets are still on their way then.
func (s *State) backedBy(at l4) []string {
	var paths []string
	for _, proto := range []cilium.Proto{at.proto, cilium.Any} {
		for _, b := range s.LB.byAddress[l4{at.address, proto}] {
			for k := range s.LB.users[b] {
				if o, ok := s.owner(k); ok {
					paths = appendNew(paths, o.path())
				}
			}
		}
	}
	if len(paths) == 0 {
		for _, l := range s.left {
			if l.at.address == at.address && (l.at.proto == at.proto || l.at.proto == cilium.Any) {
				paths = appendNew(paths, l.path)
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// forgetDrops ends what has been quiet for long enough.
func (s *State) forgetDrops() {
	for k, d := range s.drops {
		if s.SeenNs-d.lastNs >= int64(dropQuiet) {
			delete(s.drops, k)
			s.touch(topicDrops)
		}
	}
}

// dropsDue is when the next ones will have been quiet for long enough; false for none.
func (s *State) dropsDue() (due int64, ok bool) {
	for _, d := range s.drops {
		if at := d.lastNs + int64(dropQuiet); !ok || at < due {
			due, ok = at, true
		}
	}
	return due, ok
}

func (s *State) dropMessages() []*eventpb.DropsKnown {
	var list []*eventpb.DropsKnown
	for _, k := range slices.SortedFunc(maps.Keys(s.drops), dropKey.compare) {
		d := s.drops[k]
		list = append(list, &eventpb.DropsKnown{Path: k.path, Reason: int32(k.reason), Count: d.count, FirstNs: d.firstNs, LastNs: d.lastNs, From: d.from, To: d.to, Also: d.also})
	}
	return list
}

func (k dropKey) compare(o dropKey) int {
	return cmp.Or(cmp.Compare(k.path, o.path), cmp.Compare(k.reason, o.reason))
}

// reasonName is the reason as Hubble spells it.
func reasonName(r flowpb.DropReason) string {
	if name, ok := flowpb.DropReason_name[int32(r)]; ok {
		return name
	}
	return "reason " + strconv.Itoa(int(r))
}
