package hubble

import (
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// signalEvery bounds how often new connections make the maps be read.
const signalEvery = 100 * time.Millisecond

// signal fires triggers at the first sign of new connections, and once more for those that came meanwhile.
type signal struct {
	triggers []sources.Trigger
	rest     *time.Timer // runs while no more may be fired
	resting  bool
	waiting  bool
}

func newSignal(triggers []sources.Trigger) *signal {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &signal{triggers: triggers, rest: t}
}

func (s *signal) stop() { s.rest.Stop() }

// fire is called for each sign.
func (s *signal) fire() {
	if s.resting {
		s.waiting = true
		return
	}
	for _, t := range s.triggers {
		t.Fire()
	}
	s.resting = true
	s.rest.Reset(signalEvery)
}

// rested is called when the timer rest has run out.
func (s *signal) rested() {
	s.resting = false
	if s.waiting {
		s.waiting = false
		s.fire()
	}
}

// identityHost is Cilium's reserved identity of the node itself.
const identityHost = 1

// newConnection: a socket call that was traced or translated, or a TCP packet that opens a connection. What the node
// itself opens to its pods is left out: kubelet probes them all the time. Its connections to Services are translated.
func newConnection(f *flowpb.Flow) bool {
	switch f.GetVerdict() {
	case flowpb.Verdict_TRACED, flowpb.Verdict_TRANSLATED:
		return true
	}
	flags := f.GetL4().GetTCP().GetFlags()
	return flags.GetSYN() && !flags.GetACK() && f.GetSource().GetIdentity() != identityHost
}
