package projections

import (
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/profile"
)

// Apply folds one event at its position. A position that was folded already changes nothing. The event belongs
// to the state afterwards.
func (s *State) Apply(seq uint64, e *eventpb.Event) {
	if seq <= s.Seq {
		return
	}
	s.Seq, s.SeenNs = seq, e.SeenNs
	if s.FirstSeen == 0 {
		s.FirstSeen = e.SeenNs
	}
	s.Session, s.Node = e.Session, e.Node
	src := s.source(e.Source)
	src.Events++

	switch b := e.Body.(type) {
	case *eventpb.Event_SessionStart:
		s.applySession(b.SessionStart)
	case *eventpb.Event_Status:
		s.applyStatus(e.Source, b.Status)
	case *eventpb.Event_Gap:
		s.applyGap(e.Source, b.Gap)
	case *eventpb.Event_Mark:
		s.applyMark(b.Mark)
	case *eventpb.Event_Kube:
		s.applyKube(b.Kube)
	case *eventpb.Event_Flows:
		s.applyFlows(b.Flows)
	case *eventpb.Event_AgentEvents:
		// Kept for replay; no file shows them.
	case *eventpb.Event_Maps:
		s.applyMaps(src.epoch, b.Maps)
	case *eventpb.Event_Log:
		s.applyLog(b.Log)
	case *eventpb.Event_Agent:
		s.applyAgent(b.Agent)
	case *eventpb.Event_Host:
		s.applyHost(src.epoch, b.Host)
	case *eventpb.Event_Probe:
		s.Probes[b.Probe.Name] = b.Probe
		s.forgetProbes()
		s.touch(topicProbes)
	case *eventpb.Event_Tick:
		// What has lasted long enough is told, see settle.
	default:
		s.Unknown++
	}
	switch e.Body.(type) {
	case *eventpb.Event_Flows, *eventpb.Event_AgentEvents, *eventpb.Event_Log, *eventpb.Event_Agent, *eventpb.Event_Host, *eventpb.Event_Probe, *eventpb.Event_Tick:
		// They say nothing of Services' backends, and are most events.
	default:
		s.observeBaseline()
	}
	s.settle()
}

// applySession is a start of the recorder: every source begins anew, and what they knew stays until each has
// its snapshot.
func (s *State) applySession(b *eventpb.Session) {
	s.Recorder, s.Profile = b, profileOf(b)
	s.touchAll()
	for _, name := range b.Sources {
		src := s.source(name)
		src.State, src.Error, src.SinceNs = eventpb.SourceState_SOURCE_STATE_STARTING, "", s.SeenNs
		src.epoch++
	}
}

// profileOf returns the profile of a start, nil without one. One that this version cannot read makes no lab files.
func profileOf(b *eventpb.Session) *profile.Profile {
	if b.GetProfileYaml() == "" {
		return nil
	}
	p, err := profile.Parse([]byte(b.ProfileYaml))
	if err != nil {
		return nil
	}
	return p
}

func (s *State) applyStatus(name string, b *eventpb.SourceStatus) {
	src := s.source(name)
	if src.State != b.State {
		src.SinceNs = s.SeenNs
	}
	src.State, src.Error = b.State, b.Error
	s.touchAll() // rules that need the source judge again, files say how it is
	switch b.State {
	case eventpb.SourceState_SOURCE_STATE_UP:
		s.sweep(name, src.epoch)
	case eventpb.SourceState_SOURCE_STATE_DOWN, eventpb.SourceState_SOURCE_STATE_STARTING:
		src.epoch++
	}
}

// sweep drops what a source's complete snapshot did not bring again.
func (s *State) sweep(name string, epoch uint64) {
	switch name {
	case "bpfmap":
		for pin, m := range s.Maps {
			if m.epoch != epoch {
				s.dropMap(pin)
			}
		}
	case "host":
		for pod, p := range s.Host.PodSockets {
			if p.epoch != epoch {
				delete(s.Host.PodSockets, pod)
			}
		}
	}
}

func (s *State) applyMark(b *eventpb.Mark) {
	s.Marks = append(s.Marks, Mark{s.Seq, s.SeenNs, b.Text})
	if b.Text == baselineMark {
		s.Baseline = nil
	}
}

// forgetProbes drops the answers of Services that are gone.
func (s *State) forgetProbes() {
	if s.Profile == nil {
		return
	}
	for probe, service := range map[string]string{probeNodePort: s.Profile.NodePort.Service, probeGhost: s.Profile.Ghost.Service} {
		if s.service(s.Profile.Namespace, service) == nil {
			delete(s.Probes, probe)
		}
	}
}

// The names of probes: the profile's, and that of the health server of kube-proxy replacement.
const (
	probeNodePort = "nodeport"
	probeGhost    = "ghost"
	probeHealthz  = "healthz"
)
