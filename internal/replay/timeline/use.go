package timeline

import (
	"fmt"
	"net/netip"
	"slices"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// used tells of the first use of a new backend.
func (r *reader) used(f fact, u use) {
	if !r.fresh[u] {
		return
	}
	delete(r.fresh, u)
	a := u.addr.String()
	f.from, f.against = []string{"slot " + a}, "no slot "+a
	r.out(f)
}

// connections looks for the first connection to a new backend in the maps that the datapath itself writes.
func (r *reader) connections(d *eventpb.MapDelta) {
	if len(r.fresh) == 0 {
		return
	}
	kind := cilium.KindOf(d.Map)
	k, size := int(d.KeySize), int(d.KeySize+d.ValueSize)
	for u := d.Upserts; k > 0 && len(u) >= size; u = u[size:] {
		switch kind {
		case cilium.SockRevNAT4, cilium.SockRevNAT6:
			r.translated(u[:k], u[k:size])
		case cilium.CT4TCP, cilium.CT6TCP, cilium.CT4Any, cilium.CT6Any:
			r.tracked(kind == cilium.CT6TCP || kind == cilium.CT6Any, u[:k], u[k:size])
		}
	}
}

func (r *reader) translated(key, value []byte) {
	s, err := cilium.DecodeSockRevNAT(key, value)
	if err != nil {
		return
	}
	name := r.byIP[s.Frontend]
	if name == "" {
		name = r.byPort[s.Frontend.Port()]
	}
	if name == "" {
		return
	}
	f := r.row(KindUse, []string{name}, s.Backend.String(), fmt.Sprintf("first socket: connect() to %s was turned to it", s.Frontend))
	r.used(f, use{s.Backend, name})
}

func (r *reader) tracked(v6 bool, key, value []byte) {
	c, err := cilium.DecodeCT(key, value)
	if err != nil || c.Direction != cilium.Svc {
		return
	}
	b, ok := r.lb.backends[backendKey{v6, c.BackendID}]
	name := r.byIP[c.Destination]
	if name == "" {
		name = r.byPort[c.Destination.Port()]
	}
	if !ok || name == "" {
		return
	}
	f := r.row(KindUse, []string{name}, b.Address.String(), fmt.Sprintf("first connection tracked: %s → %s goes to it", c.Source, c.Destination))
	r.used(f, use{b.Address, name})
}

// sockets looks for a pod's first socket to a new backend, where only one Service has it.
func (r *reader) sockets(b *eventpb.HostState) {
	if len(r.fresh) == 0 {
		return
	}
	for _, p := range b.PodSockets {
		for _, s := range p.Sockets {
			remote, err := netip.ParseAddrPort(s.Remote)
			if err != nil || s.State != "ESTABLISHED" || len(r.owners[remote]) != 1 {
				continue
			}
			name := r.owners[remote][0]
			f := r.row(KindUse, []string{name}, remote.String(), fmt.Sprintf("first socket: %s/%s from %s", p.Namespace, p.Pod, s.Local))
			r.used(f, use{remote, name})
		}
	}
}

// flows looks for the first packet to a new backend, for failures, and after a failure for success.
func (r *reader) flows(b *eventpb.Flows) {
	for _, x := range b.Flows {
		if x.TimeNs < r.first {
			continue // from before the session
		}
		f := &flowpb.Flow{}
		if proto.Unmarshal(x.Flow, f) == nil {
			r.flow(f, x.TimeNs)
		}
	}
}

func (r *reader) flow(f *flowpb.Flow, ns int64) {
	src, dst := ends(f)
	if !src.IsValid() || !dst.IsValid() {
		return
	}
	tcp := f.GetL4().GetTCP().GetFlags()
	switch {
	case f.Verdict == flowpb.Verdict_DROPPED:
		r.dropped(f, ns, src, dst)
	case len(r.owners[src]) > 0 && tcp.GetRST() && !fromNode(f.Destination):
		r.reset(f, ns, src, dst)
	case len(r.owners[src]) > 0 && tcp.GetSYN() && tcp.GetACK() && !fromNode(f.Destination):
		r.answered(f, ns, src, dst)
	case len(r.owners[dst]) > 0 && f.Verdict == flowpb.Verdict_FORWARDED && !fromNode(f.Source) && (f.GetL4().GetTCP() == nil || tcp.GetSYN()):
		row := r.row(KindUse, r.owners[dst], dst.String(), "first packet, from "+who(f.Source, src))
		r.used(r.at(row, ns), use{dst, ""})
	}
}

// ends are the addresses of a TCP, UDP or SCTP packet.
func ends(f *flowpb.Flow) (src, dst netip.AddrPort) {
	var sport, dport uint32
	switch l := f.GetL4(); {
	case l.GetTCP() != nil:
		sport, dport = l.GetTCP().SourcePort, l.GetTCP().DestinationPort
	case l.GetUDP() != nil:
		sport, dport = l.GetUDP().SourcePort, l.GetUDP().DestinationPort
	case l.GetSCTP() != nil:
		sport, dport = l.GetSCTP().SourcePort, l.GetSCTP().DestinationPort
	default:
		return
	}
	if a, err := netip.ParseAddr(f.GetIP().GetSource()); err == nil {
		src = netip.AddrPortFrom(a, uint16(sport))
	}
	if a, err := netip.ParseAddr(f.GetIP().GetDestination()); err == nil {
		dst = netip.AddrPortFrom(a, uint16(dport))
	}
	return src, dst
}

const identityHost = 1

// fromNode says that an end is the node itself: most often the kubelet's probes, which take no Service.
func fromNode(e *flowpb.Endpoint) bool {
	return e.GetPodName() == "" && (e.GetIdentity() == identityHost || slices.Contains(e.GetLabels(), "reserved:host"))
}

func who(e *flowpb.Endpoint, a netip.AddrPort) string {
	if e.GetPodName() == "" {
		return a.String()
	}
	return e.GetNamespace() + "/" + e.GetPodName()
}
