package replay

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// bigSession makes a busy node's events, one every 50 ms: mostly flows, between them connections that come and go
// and a Service that is scaled. The same seed gives the same events.
type bigSession struct {
	rng   *rand.Rand
	flows [][]byte // of which each flow is one, but for time and uuid
	last  *eventpb.Event
	facts int
	conns uint32 // made so far; the last ctEntries of them are in the map
}

const (
	bigStep     = 50 * time.Millisecond
	flowsAtOnce = 64
	churnEvery  = 10
	churn       = 40
	scaleEvery  = 200
	ctEntries   = 150_000
	ctParts     = 5
)

// steps is how many events make about that many facts.
func (g *bigSession) steps(facts int) int {
	return max(ctParts, churnEvery*(facts-ctEntries)/((churnEvery-1)*flowsAtOnce+2*churn))
}

func (g *bigSession) next(i int) *eventpb.Event {
	var e *eventpb.Event
	switch {
	case i < ctParts:
		e = g.dump(i)
	case i%scaleEvery == 1:
		e = g.scale(i)
	case i%churnEvery == 0:
		e = g.churn()
	default:
		e = g.traffic()
	}
	e.Id, e.Node, e.Session = fmt.Sprintf("lab-%s-bench-%d", e.Source, i), g.last.Node, g.last.Session
	e.SeenNs, e.SourceSeq = g.last.SeenNs+int64(i+1)*bigStep.Nanoseconds(), uint64(i)
	for n, f := range e.GetFlows().GetFlows() {
		f.TimeNs = e.SeenNs - bigStep.Nanoseconds() + int64(n)*700_000 + g.rng.Int64N(700_000)
	}
	return e
}

func event(source string, body proto.Message) *eventpb.Event {
	e := events.New(body)
	e.Source = source
	return e
}

func (g *bigSession) traffic() *eventpb.Event {
	b := &eventpb.Flows{NodeName: "lab", NodeLabels: []string{"kubernetes.io/hostname=lab"}}
	for range flowsAtOnce {
		uuid := binary.LittleEndian.AppendUint64(nil, g.rng.Uint64())
		uuid = binary.LittleEndian.AppendUint64(uuid, g.rng.Uint64())
		b.Flows = append(b.Flows, &eventpb.Flow{Uuid: uuid, Flow: g.flows[g.rng.IntN(len(g.flows))]})
	}
	g.facts += flowsAtOnce
	return event("hubble", b)
}

func conntrack() *eventpb.MapDelta {
	return &eventpb.MapDelta{Map: "cilium_ct4_global", Type: "LRUHash", KeySize: 14, ValueSize: 56, MaxEntries: 221_719, MapId: 9}
}

func (g *bigSession) dump(i int) *eventpb.Event {
	d := conntrack()
	d.Complete, d.Part, d.Parts = true, uint32(i+1), ctParts
	for range ctEntries / ctParts {
		d.Upserts = append(d.Upserts, g.connection(g.conns)...)
		g.conns++
	}
	g.facts += ctEntries / ctParts
	return event("bpfmap", &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{d}})
}

func (g *bigSession) churn() *eventpb.Event {
	d := conntrack()
	for range churn {
		d.Deletes = append(d.Deletes, g.connection(g.conns - ctEntries)[:14]...)
		d.Upserts = append(d.Upserts, g.connection(g.conns)...)
		g.conns++
	}
	g.facts += 2 * churn
	return event("bpfmap", &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{d}})
}

// connection n is the same bytes every time but for its counters.
func (g *bigSession) connection(n uint32) []byte {
	b := make([]byte, 70)
	copy(b, []byte{10, 42, byte(n >> 22), byte(n >> 14 & 0xff), 10, 42, 0, byte(n % 250), 0x1f, 0x90})
	binary.BigEndian.PutUint16(b[8:], uint16(n*40503))
	binary.BigEndian.PutUint16(b[10:], uint16(n))
	b[12], b[13] = 6, byte(n%3)
	binary.LittleEndian.PutUint64(b[14+16:], uint64(g.rng.IntN(900)))  // packets
	binary.LittleEndian.PutUint64(b[14+24:], uint64(g.rng.IntN(90e3))) // bytes
	binary.LittleEndian.PutUint32(b[14+32:], 10_000+n/100)             // lifetime
	binary.LittleEndian.PutUint16(b[14+36:], uint16(n%7)<<4)           // flags
	binary.LittleEndian.PutUint32(b[14+44:], n%50)                     // source's identity
	return b
}

// scale gives a Service of the node one backend more, or one less.
func (g *bigSession) scale(i int) *eventpb.Event {
	g.facts++
	slice := &eventpb.EndpointSlice{Service: "other", AddressType: "IPv4", Ports: []*eventpb.EndpointPort{{Port: proto.Int32(8080)}}}
	for n := range 10 + i/scaleEvery%2 {
		slice.Endpoints = append(slice.Endpoints, &eventpb.Endpoint{Addresses: []string{fmt.Sprintf("10.42.9.%d", n)}, Ready: proto.Bool(true), TargetKind: "Pod", TargetName: fmt.Sprint("other-", n)})
	}
	return event("kube", &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_ENDPOINT_SLICE, Objects: []*eventpb.KubeObject{{
		Namespace: "other", Name: "other-1", Uid: "u", ResourceVersion: fmt.Sprint(i), EndpointSlice: slice,
	}}})
}

// variants are the lab's flows with other ports, as other connections of the same pods have them.
func variants(b *testing.B, base []*eventpb.Event, rng *rand.Rand) [][]byte {
	var out [][]byte
	for len(out) < 20_000 {
		for _, e := range base {
			for _, packed := range e.GetFlows().GetFlows() {
				f := &flowpb.Flow{}
				if err := proto.Unmarshal(packed.Flow, f); err != nil {
					b.Fatal(err)
				}
				if tcp := f.GetL4().GetTCP(); tcp.GetSourcePort() > 30_000 {
					tcp.SourcePort = 30_000 + rng.Uint32N(30_000)
				}
				data, err := proto.Marshal(f)
				if err != nil {
					b.Fatal(err)
				}
				out = append(out, data)
			}
		}
	}
	return out
}
