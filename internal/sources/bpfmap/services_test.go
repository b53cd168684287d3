package bpfmap

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// agentWriter changes services as the agent does: a backend is there before the first slot that names it and goes
// after the last.
type agentWriter struct {
	t                  *testing.T
	services, backends *ebpf.Map
	rnd                *rand.Rand
	slots              map[[2]uint16]uint32 // of frontend and slot
	next               uint32
}

func (a *agentWriter) step() {
	frontend, slot := uint16(a.rnd.IntN(20)), uint16(1+a.rnd.IntN(4))
	key := make([]byte, 12)
	binary.BigEndian.PutUint16(key[4:], frontend)
	binary.LittleEndian.PutUint16(key[6:], slot)
	was, had := a.slots[[2]uint16{frontend, slot}]
	if had && a.rnd.IntN(2) == 0 {
		a.must(a.services.Delete(key))
		delete(a.slots, [2]uint16{frontend, slot})
	} else {
		a.next++
		a.must(a.backends.Put(a.next, make([]byte, 12)))
		value := make([]byte, 12)
		binary.LittleEndian.PutUint32(value, a.next)
		a.must(a.services.Put(key, value))
		a.slots[[2]uint16{frontend, slot}] = a.next
	}
	if had {
		a.must(a.backends.Delete(was))
	}
}

func (a *agentWriter) must(err error) {
	if err != nil {
		a.t.Error(err)
	}
}

// TestSlotsAndBackendsAgree: whatever the agent does meanwhile, after each event every slot's backend is known.
func TestSlotsAndBackendsAgree(t *testing.T) {
	n := newNode(t)
	a := &agentWriter{t: t, rnd: rand.New(rand.NewPCG(5, 6)), slots: map[[2]uint16]uint32{},
		services: n.Pin(svcName, ebpf.Hash, 12, 12, 4096), backends: n.Pin(backendName, ebpf.Hash, 4, 12, 4096)}
	r := newReplica()
	checked := 0
	r.onEvent = func(r *replica) {
		for key, value := range r.maps[svcName] {
			s, err := cilium.DecodeService([]byte(key), []byte(value))
			if err != nil {
				r.problem("%v", err)
			}
			id := binary.LittleEndian.AppendUint32(nil, s.BackendID)
			if _, ok := r.maps[backendName][string(id)]; !ok {
				r.problem("event %d: slot %d names backend %d, which is not there", len(r.events), s.Slot, s.BackendID)
			}
			checked++
		}
	}
	l := n.lane(r)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for pause := time.NewTicker(20 * time.Microsecond); ; <-pause.C {
			select {
			case <-stop:
				pause.Stop()
				return
			default:
				a.step()
			}
		}
	}()
	r.expectPolls(t, l, func() bool { return checked > 5000 })
	close(stop)
	<-stopped
	pollAll(t, l)
	r.equals(t, svcName, a.services)
	r.equals(t, backendName, a.backends)
	for _, g := range r.gaps {
		t.Logf("gap: %s", g.Detail)
	}
}

// expectPolls polls until done.
func (r *replica) expectPolls(t *testing.T, l *lane, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); pollAll(t, l) {
		if time.Now().After(deadline) {
			t.Fatal("polled in vain")
		}
	}
}

// TestServicesComeInOneEvent: a slot and the backend that it names are not told apart.
func TestServicesComeInOneEvent(t *testing.T) {
	n := newNode(t)
	a := &agentWriter{t: t, rnd: rand.New(rand.NewPCG(7, 8)), slots: map[[2]uint16]uint32{},
		services: n.Pin(svcName, ebpf.Hash, 12, 12, 4096), backends: n.Pin(backendName, ebpf.Hash, 4, 12, 4096)}
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	a.step()
	before := len(r.events)
	pollAll(t, l)
	if len(r.events) != before+1 || len(r.events[before].GetMaps().GetMaps()) != 2 {
		t.Errorf("told %v", r.events[before:])
	}
}

// TestIdlePollReadsServicesOnly: that is what makes a poll every 50 ms affordable. A backend's own change is seen
// when the whole group is read.
func TestIdlePollReadsServicesOnly(t *testing.T) {
	n := newNode(t)
	n.Pin(svcName, ebpf.Hash, 12, 12, 64)
	backends := n.Pin(backendName, ebpf.Hash, 4, 12, 64)
	put(t, backends, 1, make([]byte, 12))
	r := newReplica()
	l := n.lane(r)
	pollAll(t, l)
	put(t, backends, 1, append([]byte{9}, make([]byte, 11)...))
	g := l.groups[0]
	g.force, g.full = false, time.Now()
	p := &packer{}
	if err := g.poll(t.Context(), p, l.ktime); err != nil || len(p.events) != 0 {
		t.Errorf("a poll of the services alone told %v, %v", p.events, err)
	}
	g.full = time.Now().Add(-2 * fullEvery)
	if err := g.poll(t.Context(), p, l.ktime); err != nil || len(p.events) != 1 {
		t.Errorf("a poll of the group told %v, %v", p.events, err)
	}
}
