package hubble

import (
	"testing"
	"testing/synctest"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// A burst of 1,000 connections in 350 ms makes the maps be read at 0, 100, 200, 300 and 400 ms, so that the last is seen too.
func TestSignalsAreLimitedAndTheLastIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look := sources.NewTrigger()
		s := newSignal([]sources.Trigger{look})
		defer s.stop()
		start, fired := time.Now(), []time.Duration{}
		next := time.NewTicker(350 * time.Microsecond)
		defer next.Stop()
		for time.Since(start) < time.Second {
			select {
			case <-next.C:
				if time.Since(start) < 350*time.Millisecond {
					s.fire()
				}
			case <-s.rest.C:
				s.rested()
			}
			select {
			case <-look:
				fired = append(fired, time.Since(start).Round(10*time.Millisecond))
			default:
			}
		}
		if len(fired) != 5 || fired[4] != 400*time.Millisecond {
			t.Errorf("fired at %v", fired)
		}
	})
}

func TestNewConnection(t *testing.T) {
	tcp := func(flags *flowpb.TCPFlags) *flowpb.Flow {
		return &flowpb.Flow{Verdict: flowpb.Verdict_FORWARDED, L4: &flowpb.Layer4{Protocol: &flowpb.Layer4_TCP{TCP: &flowpb.TCP{Flags: flags}}}}
	}
	from := func(identity uint32, f *flowpb.Flow) *flowpb.Flow {
		f.Source = &flowpb.Endpoint{Identity: identity}
		return f
	}
	for name, tc := range map[string]struct {
		flow *flowpb.Flow
		want bool
	}{
		"SYN":         {tcp(&flowpb.TCPFlags{SYN: true}), true},
		"pod's SYN":   {from(40847, tcp(&flowpb.TCPFlags{SYN: true})), true},
		"a probe's":   {from(identityHost, tcp(&flowpb.TCPFlags{SYN: true})), false},
		"host's call": {from(identityHost, &flowpb.Flow{Verdict: flowpb.Verdict_TRANSLATED}), true},
		"SYN ACK":     {tcp(&flowpb.TCPFlags{SYN: true, ACK: true}), false},
		"ACK":         {tcp(&flowpb.TCPFlags{ACK: true}), false},
		"no flags":    {tcp(nil), false},
		"traced":      {&flowpb.Flow{Verdict: flowpb.Verdict_TRACED}, true},
		"translated":  {&flowpb.Flow{Verdict: flowpb.Verdict_TRANSLATED}, true},
		"empty":       {&flowpb.Flow{}, false},
	} {
		if got := newConnection(tc.flow); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
