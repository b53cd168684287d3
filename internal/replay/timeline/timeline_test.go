package timeline

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

// story is events in the order of the journal, with the millisecond at which each was seen.
type story struct {
	*testing.T
	timeline *Timeline
	rows     []Row
	seq      uint64
}

func tell(t *testing.T, filter Filter) *story {
	s := &story{T: t}
	s.timeline = New(filter, func(r Row) error { s.rows = append(s.rows, r); return nil })
	s.at(1, "recorder", &eventpb.Session{Sources: []string{"kube", "bpfmap", "agent"}})
	for _, kind := range []eventpb.Kind{eventpb.Kind_KIND_SERVICE, eventpb.Kind_KIND_ENDPOINT_SLICE, eventpb.Kind_KIND_POD} {
		s.at(1, "kube", &eventpb.KubeObjects{Kind: kind, Complete: true})
	}
	s.at(1, "bpfmap", &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{services(true), backends(true)}})
	for _, source := range []string{"kube", "bpfmap", "agent"} {
		s.at(2, source, &eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_UP})
	}
	return s
}

func (s *story) at(ms int64, source string, body proto.Message) {
	s.Helper()
	e := events.New(body)
	e.Source, e.SeenNs = source, ms*1e6
	s.seq++
	if err := s.timeline.Add(s.seq, e); err != nil {
		s.Fatal(err)
	}
}

// end returns the rows of these kinds, one in a line with the delay from the cause, and the figures.
func (s *story) end(kinds ...Kind) (string, []Convergence) {
	s.Helper()
	figures, err := s.timeline.End()
	if err != nil {
		s.Fatal(err)
	}
	var b strings.Builder
	for _, r := range s.rows {
		for _, k := range kinds {
			if r.Kind != k {
				continue
			}
			delay := "-"
			if d, ok := r.Delay(); ok {
				delay = d.String()
			}
			fmt.Fprintf(&b, "%dms %s %s %s %s\n", r.TimeNs/1e6, delay, strings.Join(r.Services, ","), r.Kind, r.Text)
		}
	}
	return b.String(), figures
}

func aService(name, ip string) *eventpb.KubeObjects {
	return &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_SERVICE, Objects: []*eventpb.KubeObject{{Namespace: "ns", Name: name, Uid: name,
		Service: &eventpb.Service{Type: "ClusterIP", ClusterIps: []string{ip}, Ports: []*eventpb.ServicePort{{Protocol: "TCP", Port: 80}}}}}}
}

func aSlice(name string, ready ...string) *eventpb.KubeObjects {
	v := &eventpb.EndpointSlice{Service: name, AddressType: "IPv4", Ports: []*eventpb.EndpointPort{{Protocol: "TCP", Port: proto.Int32(8080)}}}
	for _, a := range ready {
		v.Endpoints = append(v.Endpoints, &eventpb.Endpoint{Addresses: []string{a}, Ready: proto.Bool(true)})
	}
	return &eventpb.KubeObjects{Kind: eventpb.Kind_KIND_ENDPOINT_SLICE, Objects: []*eventpb.KubeObject{{Namespace: "ns", Name: name + "-1", EndpointSlice: v}}}
}

func address(a netip.AddrPort) []byte {
	return binary.BigEndian.AppendUint16(a.Addr().AsSlice(), a.Port())
}

// frontend gives the slots of a Service as Cilium's map holds them: slot 0 with the count, then one for each backend.
func frontend(ip string, id uint16, backendIDs ...uint32) [][]byte {
	var entries [][]byte
	for slot, backend := range append([]uint32{0}, backendIDs...) {
		count := 0
		if slot == 0 {
			count = len(backendIDs)
		}
		b := address(netip.MustParseAddrPort(ip + ":80"))
		b = append(binary.NativeEndian.AppendUint16(b, uint16(slot)), 6, 0, 0, 0)
		b = binary.NativeEndian.AppendUint32(b, backend)
		b = binary.NativeEndian.AppendUint16(b, uint16(count))
		b = append(binary.BigEndian.AppendUint16(b, id), 0, 0, 0, 0)
		entries = append(entries, b)
	}
	return entries
}

func backend(id uint32, ip string) []byte {
	b := binary.NativeEndian.AppendUint32(nil, id)
	return append(append(b, address(netip.MustParseAddrPort(ip+":8080"))...), 6, 0, 0, 0, 0, 0)
}

func services(complete bool, entries ...[]byte) *eventpb.MapDelta {
	return delta("cilium_lb4_services_v2", 12, complete, entries)
}

func backends(complete bool, entries ...[]byte) *eventpb.MapDelta {
	return delta("cilium_lb4_backends_v3", 4, complete, entries)
}

func delta(name string, key uint32, complete bool, entries [][]byte) *eventpb.MapDelta {
	d := &eventpb.MapDelta{Map: name, KeySize: key, ValueSize: 12, Complete: complete}
	for _, e := range entries {
		d.Upserts = append(d.Upserts, e...)
	}
	return d
}

// mapAdds and mapRemoves change the only slot of a frontend, as a poll sees it. The backend's id is its last byte.
func mapAdds(ip, addr string) *eventpb.MapDeltas {
	id := uint32(netip.MustParseAddr(addr).As4()[3])
	return &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{services(false, frontend(ip, 7, id)...), backends(false, backend(id, addr))}}
}

func mapRemoves(ip, addr string) *eventpb.MapDeltas {
	id := uint32(netip.MustParseAddr(addr).As4()[3])
	slots, list := services(false, frontend(ip, 7)...), backends(false)
	slots.Deletes = frontend(ip, 7, id)[1][:12]
	list.Deletes = backend(id, addr)[:4]
	return &eventpb.MapDeltas{Maps: []*eventpb.MapDelta{slots, list}}
}

func TestMapFollowsTheSlice(t *testing.T) {
	s := tell(t, Filter{})
	s.at(10, "kube", aService("web", "10.43.0.7"))
	s.at(100, "kube", aSlice("web", "10.42.0.9"))
	s.at(130, "bpfmap", mapAdds("10.43.0.7", "10.42.0.9"))
	s.at(5000, "kube", aSlice("web"))
	s.at(5200, "bpfmap", mapRemoves("10.43.0.7", "10.42.0.9"))
	got, figures := s.end(KindEndpoint, KindSlot)
	want := `100ms - ns/web endpoint EndpointSlice: ready
130ms 30ms ns/web slot map: slot added, backend id 9
5000ms - ns/web endpoint EndpointSlice: removed (was ready)
5200ms 200ms ns/web slot map: slot removed; the Service has no backend left
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	ms := int64(1e6)
	for i, want := range []Convergence{
		{Service: "ns/web", Direction: "added", Count: 1},
		{Service: "ns/web", Direction: "removed", Count: 1},
	} {
		took := []int64{30, 200}[i] * ms
		if i >= len(figures) || figures[i].Direction != want.Direction || figures[i].Count != 1 || int64(figures[i].Median) != took || int64(figures[i].P99) != took {
			t.Errorf("figures %+v, want one backend %s in %d ms", figures, want.Direction, took/ms)
		}
	}
}

// A slot that is there before the slice says so has no cause, and is counted as such, not as a negative delay.
func TestMapAheadOfTheSlice(t *testing.T) {
	s := tell(t, Filter{})
	s.at(10, "kube", aService("web", "10.43.0.7"))
	s.at(100, "bpfmap", mapAdds("10.43.0.7", "10.42.0.9"))
	s.at(4000, "kube", aSlice("web", "10.42.0.9"))
	got, figures := s.end(KindSlot)
	if !strings.HasPrefix(got, "100ms - ns/web slot map: slot added") {
		t.Errorf("rows:\n%s", got)
	}
	if len(figures) != 1 || figures[0].Count != 0 || figures[0].MapFirst != 1 {
		t.Errorf("figures %+v, want none measured and the map first once", figures)
	}
}

// What was being measured when a source missed something is no sample.
func TestGapBreaksTheMeasure(t *testing.T) {
	s := tell(t, Filter{})
	s.at(10, "kube", aService("web", "10.43.0.7"))
	s.at(100, "kube", aSlice("web", "10.42.0.9"))
	s.at(3000, "bpfmap", &eventpb.Gap{FromNs: 200e6, ToNs: 3000e6, Reason: eventpb.GapReason_GAP_REASON_LATE, Detail: "walk"})
	s.at(6000, "bpfmap", mapAdds("10.43.0.7", "10.42.0.9"))
	got, figures := s.end(KindGap)
	if !strings.Contains(got, "gap did not see all") {
		t.Errorf("no row of the gap:\n%s", got)
	}
	for _, f := range figures {
		if f.Count > 0 {
			t.Errorf("measured across a gap: %+v", f)
		}
	}
}

// What a new list shows after a restart happened at a time that nobody knows: it causes nothing and is no sample.
func TestRestartInTheMiddle(t *testing.T) {
	s := tell(t, Filter{})
	s.at(10, "kube", aService("web", "10.43.0.7"))
	s.at(100, "kube", aSlice("web", "10.42.0.9"))
	s.at(5000, "recorder", &eventpb.Gap{FromNs: 110e6, ToNs: 5000e6, Reason: eventpb.GapReason_GAP_REASON_RESTART, Detail: "the recorder was not running"})
	s.at(5001, "recorder", &eventpb.Session{Sources: []string{"kube", "bpfmap"}})
	list := aSlice("web", "10.42.0.9")
	list.Complete = true
	s.at(5010, "kube", list)
	added := mapAdds("10.43.0.7", "10.42.0.9")
	for _, d := range added.Maps {
		d.Complete = true
	}
	s.at(5020, "bpfmap", added)
	got, figures := s.end(KindSlot, KindGap)
	if !strings.Contains(got, "gap") || !strings.Contains(got, "5020ms - ns/web slot map: slot added, backend id 9 (found in a new list: when it happened is not known)") {
		t.Errorf("rows:\n%s", got)
	}
	for _, f := range figures {
		if f.Count > 0 {
			t.Errorf("measured across a restart: %+v", f)
		}
	}
}

func TestServicesAreToldApart(t *testing.T) {
	s := tell(t, Filter{Services: []string{"ns/api"}})
	s.at(10, "kube", aService("web", "10.43.0.7"))
	s.at(10, "kube", aService("api", "10.43.0.8"))
	s.at(100, "kube", aSlice("web", "10.42.0.9"))
	s.at(3000, "kube", aSlice("api", "10.42.0.10"))
	got, _ := s.end(Kinds...)
	if strings.Contains(got, "ns/web") || !strings.Contains(got, "3000ms - ns/api endpoint EndpointSlice: ready") {
		t.Errorf("rows of ns/api only, got:\n%s", got)
	}
}

// A backend that comes again is caused by the slice's second word, not by its first.
func TestBackendAddedAgain(t *testing.T) {
	s := tell(t, Filter{})
	s.at(10, "kube", aService("web", "10.43.0.7"))
	for _, ms := range []int64{1000, 9000} {
		s.at(ms, "kube", aSlice("web", "10.42.0.9"))
		s.at(ms+50, "bpfmap", mapAdds("10.43.0.7", "10.42.0.9"))
		s.at(ms+4000, "kube", aSlice("web"))
		s.at(ms+4070, "bpfmap", mapRemoves("10.43.0.7", "10.42.0.9"))
	}
	got, figures := s.end(KindSlot)
	want := `1050ms 50ms ns/web slot map: slot added, backend id 9
5070ms 70ms ns/web slot map: slot removed; the Service has no backend left
9050ms 50ms ns/web slot map: slot added, backend id 9
13070ms 70ms ns/web slot map: slot removed; the Service has no backend left
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(figures) != 2 || figures[0].Count != 2 || figures[1].Count != 2 {
		t.Errorf("figures %+v, want two backends each way", figures)
	}
}

func TestSameTapeSameRowsInOrder(t *testing.T) {
	var first []Row
	for range 4 {
		tape, err := journal.OpenTape("../../../testdata/rolling.tape")
		if err != nil {
			t.Fatal(err)
		}
		var rows []Row
		bySeq := map[uint64]bool{}
		if _, err := Of(t.Context(), tape, Filter{}, func(r Row) error {
			if n := len(rows); n > 0 && r.TimeNs < rows[n-1].TimeNs && !strings.Contains(r.Text, "told") {
				t.Errorf("row of seq %d is out of order", r.Seq)
			}
			if r.Cause != nil && r.Cause.TimeNs > r.TimeNs {
				t.Errorf("row of seq %d comes before its cause %d", r.Seq, r.Cause.Seq)
			}
			rows = append(rows, r)
			bySeq[r.Seq] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Cause != nil && !bySeq[r.Cause.Seq] {
				t.Errorf("row of seq %d names the cause %d, which is no row", r.Seq, r.Cause.Seq)
			}
		}
		if err := tape.Close(); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = rows
		} else if diff := cmp.Diff(first, rows); diff != "" {
			t.Fatal(diff)
		}
	}
}
