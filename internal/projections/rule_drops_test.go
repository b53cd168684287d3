package projections

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// hubbleFlow is a TCP flow as it is recorded.
func hubbleFlow(from, to string, change func(*flowpb.Flow)) []byte {
	src, dst := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	f := &flowpb.Flow{
		Verdict: flowpb.Verdict_DROPPED, IP: &flowpb.IP{Source: src.Addr().String(), Destination: dst.Addr().String()},
		L4:     &flowpb.Layer4{Protocol: &flowpb.Layer4_TCP{TCP: &flowpb.TCP{SourcePort: uint32(src.Port()), DestinationPort: uint32(dst.Port())}}},
		Source: &flowpb.Endpoint{Identity: 2000, Namespace: "cca-dp", PodName: "probe"},
	}
	if change != nil {
		change(f)
	}
	return must(proto.MarshalOptions{Deterministic: true}.Marshal(f))
}

const aClient = "10.42.0.5:40000"

// dropped lets Hubble tell of packets dropped for a reason, seen a moment ago.
func (st *story) dropped(reason flowpb.DropReason, to ...string) {
	var list [][]byte
	for _, a := range to {
		list = append(list, hubbleFlow(aClient, a, func(f *flowpb.Flow) { f.DropReasonDesc = reason }))
	}
	st.flows(list...)
}

func (st *story) flows(list ...[]byte) {
	b := &eventpb.Flows{}
	for _, f := range list {
		b.Flows = append(b.Flows, &eventpb.Flow{TimeNs: cmp.Or(st.now, int64(st.s.Seq+1)*1e9) - 5e6, Flow: f})
	}
	e := events.New(b)
	e.Source, e.Session, e.Node, e.SeenNs = "hubble", "s1", "lab", cmp.Or(st.now, int64(st.s.Seq+1)*1e9)
	// As it is read from the journal.
	if err := st.s.ApplyRecord(st.s.Seq+1, must(proto.Marshal(e))); err != nil {
		st.Fatal(err)
	}
}

func observed(t *testing.T) *story {
	st := settled(t)
	st.up("hubble")
	return st
}

func TestDropsOnTheWayToAService(t *testing.T) {
	const noBackend, stale = flowpb.DropReason_SERVICE_BACKEND_NOT_FOUND, flowpb.DropReason_STALE_OR_UNROUTABLE_IP
	st := observed(t)
	st.dropped(noBackend, webIP+":80", webIP+":80")
	st.dropped(noBackend, "10.42.0.38:8080")
	st.dropped(stale, "10.42.0.9:8080", "10.99.0.1:53") // that is no Service's
	st.wantOpen("once they are seen", "packets-dropped cca-dp/web SERVICE_BACKEND_NOT_FOUND", "packets-dropped cca-dp/web STALE_OR_UNROUTABLE_IP")
	first := st.s.Findings()[0]
	if want := int64(st.s.Seq-2)*1e9 - 5e6; first.SinceNs != want {
		t.Errorf("since %d, want %d: when the first packet was dropped", first.SinceNs, want)
	}
	last := int64(st.s.Seq-1)*1e9 - 5e6
	st.wantText("packets-dropped", "3 packets dropped on the way of cca-dp/web: SERVICE_BACKEND_NOT_FOUND (no backend is behind the frontend",
		"; the last at "+timeText(last)+" from 10.42.0.5:40000 (cca-dp/probe) to 10.42.0.38:8080/TCP")

	// It ends when a minute has passed: the recorder is told when, and ticks then.
	due, ok := st.s.NextDue()
	if !ok || due != last+60e9 {
		t.Fatalf("due at %d (%v), want a minute after the last packet, %d", due, ok, last+60e9)
	}
	st.now = due - 1
	st.wait(1)
	st.wantOpen("before the minute is over", "packets-dropped cca-dp/web SERVICE_BACKEND_NOT_FOUND", "packets-dropped cca-dp/web STALE_OR_UNROUTABLE_IP")
	st.now = due
	st.wait(1)
	st.wantOpen("after it", "packets-dropped cca-dp/web STALE_OR_UNROUTABLE_IP")
	if due, _ = st.s.NextDue(); due != last+61e9 {
		t.Errorf("the other is due at %d, want %d", due, last+61e9)
	}
	st.now = due
	st.wait(1)
	st.wantOpen("after the other's")
	if _, ok := st.s.NextDue(); ok {
		t.Error("something is due though nothing lasts")
	}
}

// While a Service is updated packets reach addresses that left its slots a moment before.
func TestDropsAtABackendThatLeft(t *testing.T) {
	st := observed(t)
	st.slice("web-1", nil, "10.42.0.38")
	st.row(webIP+":80/TCP", "cca-dp/web", "Done", "", "10.42.0.38:8080/TCP")
	st.webFront("10.42.0.38:8080")
	gone := lbBackend{address: "10.42.0.9:8080"}
	st.maps(&eventpb.MapDelta{Map: "cilium_lb4_backends_v3", KeySize: 4, ValueSize: 12, Deletes: gone.bytes()[:4]})
	st.dropped(flowpb.DropReason_STALE_OR_UNROUTABLE_IP, gone.address)
	st.wantOpen("a moment after", "packets-dropped cca-dp/web STALE_OR_UNROUTABLE_IP")
	st.wait(70)
	st.wantOpen("a minute later")
	st.dropped(flowpb.DropReason_STALE_OR_UNROUTABLE_IP, gone.address)
	st.wantOpen("an address that was the Service's long ago")
}

func TestWhoseDropsTheyAre(t *testing.T) {
	const reason = flowpb.DropReason_STALE_OR_UNROUTABLE_IP
	drop := func(from, to string, change func(*flowpb.Flow)) []byte {
		return hubbleFlow(from, to, func(f *flowpb.Flow) {
			f.DropReasonDesc = reason
			if change != nil {
				change(f)
			}
		})
	}
	for name, c := range map[string]struct {
		flow []byte
		want string // paths
	}{
		"another port of the Service's address": {drop(aClient, webIP+":81", nil), "cca-dp/web"},
		"the node asks a pod for its health":    {drop("10.42.0.1:40000", "10.42.0.9:8080", func(f *flowpb.Flow) { f.Source = &flowpb.Endpoint{Identity: 1} }), ""},
		"the node connects to the Service":      {drop("10.42.0.1:40000", webIP+":80", func(f *flowpb.Flow) { f.Source = &flowpb.Endpoint{Identity: 1} }), "cca-dp/web"},
		"a pod connects to its Service's pod":   {drop(aClient, "10.42.0.9:8080", nil), "cca-dp/web"},
		"another port of that pod":              {drop(aClient, "10.42.0.9:9090", nil), ""},
		"another protocol": {drop(aClient, "10.42.0.9:8080", func(f *flowpb.Flow) {
			f.L4 = &flowpb.Layer4{Protocol: &flowpb.Layer4_UDP{UDP: &flowpb.UDP{DestinationPort: 8080}}}
		}), ""},
		"ICMP": {drop(aClient, webIP+":80", func(f *flowpb.Flow) {
			f.L4 = &flowpb.Layer4{Protocol: &flowpb.Layer4_ICMPv4{ICMPv4: &flowpb.ICMPv4{Type: 8}}}
		}), ""},
		"Hubble knows the Service": {drop(aClient, "10.99.0.1:80", func(f *flowpb.Flow) { f.DestinationService = &flowpb.Service{Namespace: "shop", Name: "cart"} }), "shop/cart"},
		"the answer of a backend":  {drop("10.42.0.9:8080", aClient, func(f *flowpb.Flow) { f.IsReply = wrapperspb.Bool(true) }), "cca-dp/web"},
		"a backend as a client":    {drop("10.42.0.9:8080", aClient, nil), ""},
		"the answer of a frontend": {drop(webIP+":80", aClient, nil), "cca-dp/web"},
		"forwarded":                {drop(aClient, webIP+":80", func(f *flowpb.Flow) { f.Verdict = flowpb.Verdict_FORWARDED }), ""},
		"a NodePort":               {drop("203.0.113.9:40000", "192.168.0.1:30080", nil), "cca-dp/np"},
		"a hostPort":               {drop("203.0.113.9:40000", "192.168.0.1:8443", nil), "pod cca-dp/edge"},
	} {
		t.Run(name, func(t *testing.T) {
			st := observed(t)
			st.svc("np", func(o *eventpb.KubeObject) {
				o.Service.Type, o.Service.ClusterIps, o.Service.Ports[0].NodePort = "NodePort", []string{"10.43.0.8"}, 30080
			})
			st.front(lbEntry{front: "192.168.0.1:30080", flags: cilium.FlagNodePort})
			st.pods(&eventpb.KubeObject{Namespace: "cca-dp", Name: "edge", Uid: "u", Pod: &eventpb.Pod{NodeName: "lab", PodIps: []string{"10.42.0.70"}, Phase: "Running",
				Containers: []*eventpb.Container{{Ports: []*eventpb.ContainerPort{{Port: 443, HostPort: 8443, Protocol: "TCP"}}}}}})
			st.front(lbEntry{front: "192.168.0.1:8443", flags: cilium.FlagHostPort}, lbBackend{address: "10.42.0.70:443"})
			st.flows(c.flow)
			var got []string
			for _, f := range st.s.Findings() {
				if path, ok := strings.CutSuffix(f.Subject, " "+reason.String()); ok && f.Rule == "packets-dropped" {
					got = append(got, path)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("drops of %q, want %q", got, c.want)
			}
		})
	}
}

func TestDropsOfASharedBackend(t *testing.T) {
	st := observed(t)
	st.svc("too", func(o *eventpb.KubeObject) { o.Service.ClusterIps = []string{"10.43.0.8"} })
	st.front(lbEntry{front: "10.43.0.8:80"}, lbBackend{address: "10.42.0.9:8080"})
	st.dropped(flowpb.DropReason_STALE_OR_UNROUTABLE_IP, "10.42.0.9:8080")
	var texts []string
	for _, f := range st.s.Findings() {
		if f.Rule == "packets-dropped" {
			texts = append(texts, f.Text)
		}
	}
	if len(texts) != 2 || !strings.HasSuffix(texts[0], "to 10.42.0.9:8080/TCP, which is a backend of cca-dp/web too") || !strings.HasSuffix(texts[1], "which is a backend of cca-dp/too too") {
		t.Errorf("told of %q", texts)
	}
}

// rangeEntries are of cilium_lb4_source_range: the length of the prefix and of what stands before the address, the rev-NAT id, a
// pad of two bytes, the address.
func rangeEntries(prefixes ...string) *eventpb.MapDelta {
	d := &eventpb.MapDelta{Map: "cilium_lb4_source_range", KeySize: 12, ValueSize: 1}
	for _, text := range prefixes {
		p := netip.MustParsePrefix(text)
		d.Upserts = append(d.Upserts, byte(32+p.Bits()), 0, 0, 0, 0, 7, 0, 0)
		d.Upserts = append(append(d.Upserts, p.Addr().AsSlice()...), 0)
	}
	return d
}

func TestDropsBySourceRanges(t *testing.T) {
	const subject = "packets-refused cca-dp/web DENIED_BY_LB_SRC_RANGE_CHECK"
	front := "192.168.0.40:80"
	st := observed(t)
	st.svc("web", func(o *eventpb.KubeObject) {
		o.Service.Type, o.Service.LoadBalancerIps, o.Service.SourceRanges = "LoadBalancer", []string{"192.168.0.40"}, []string{"10.0.0.0/8", "172.16.0.0/12"}
	})
	two := []lbBackend{{address: "10.42.0.9:8080"}, {address: "10.42.0.38:8080"}}
	st.front(lbEntry{front: front, flags: cilium.FlagLoadBalancer | cilium.FlagSourceRange}, two...)
	st.maps(rangeEntries("172.16.0.0/12", "10.0.0.0/8"))
	st.flows(hubbleFlow("203.0.113.9:40000", front, func(f *flowpb.Flow) {
		f.Source, f.DropReasonDesc = nil, flowpb.DropReason_DENIED_BY_LB_SRC_RANGE_CHECK
	}))
	st.wantOpen("a client from elsewhere", subject)
	st.wantText("packets-refused", "1 packet dropped on the way of cca-dp/web: DENIED_BY_LB_SRC_RANGE_CHECK (the client is outside of the source ranges); "+
		"192.168.0.40:80/TCP allows 10.0.0.0/8, 172.16.0.0/12; the last at ", " from 203.0.113.9:40000 to 192.168.0.40:80/TCP")
	if level := st.s.Findings()[0].Level(); level != LevelWarning {
		t.Errorf("level %s: it is what the Service asks for", level)
	}
	st.front(lbEntry{front: front, flags: cilium.FlagLoadBalancer | cilium.FlagSourceRange | cilium.FlagQuarantined}, two...)
	st.flows(hubbleFlow("10.0.0.9:40000", front, func(f *flowpb.Flow) { f.DropReasonDesc = flowpb.DropReason_DENIED_BY_LB_SRC_RANGE_CHECK }))
	st.wantText("packets-refused", "2 packets dropped", "192.168.0.40:80/TCP denies 10.0.0.0/8, 172.16.0.0/12")
}

// The observer's ring holds what was before the recording.
func TestOldDropsAreNotFound(t *testing.T) {
	st := observed(t)
	st.now = int64(st.s.Seq+1) * 1e9
	old := &eventpb.Flow{TimeNs: st.now - 60e9, Flow: hubbleFlow(aClient, webIP+":80", nil)}
	st.event("hubble", &eventpb.Flows{Flows: []*eventpb.Flow{old}})
	st.wantOpen("a packet that was dropped a minute before")
	old.TimeNs++
	st.event("hubble", &eventpb.Flows{Flows: []*eventpb.Flow{old}})
	st.wantOpen("less than a minute before", "packets-dropped cca-dp/web DROP_REASON_UNKNOWN")
}

func TestDropsAreBounded(t *testing.T) {
	st := observed(t)
	st.now = int64(st.s.Seq+1) * 1e9
	for i := range 2 * maxDrops {
		st.flows(hubbleFlow(aClient, "10.99.0.1:80", func(f *flowpb.Flow) {
			f.DropReasonDesc = flowpb.DropReason_POLICY_DENIED
			f.DestinationService = &flowpb.Service{Namespace: "shop", Name: fmt.Sprint("s", i)}
		}))
	}
	list := st.s.Findings()
	if len(list) != maxDrops+1 || len(st.s.drops) != maxDrops+1 {
		t.Fatalf("%d findings and %d kept of %d Services", len(list), len(st.s.drops), 2*maxDrops)
	}
	for _, f := range list {
		if f.Subject == otherPaths+" POLICY_DENIED" {
			if !strings.HasPrefix(f.Text, fmt.Sprintf("%d packets dropped", maxDrops)) {
				t.Errorf("those beyond the bound: %s", f.Text)
			}
			return
		}
	}
	t.Error("those beyond the bound are not told of")
}
