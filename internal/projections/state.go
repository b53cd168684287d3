package projections

import (
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/profile"
)

// State is what is known at one position of the journal.
type State struct {
	Seq    uint64 // of the last event folded
	SeenNs int64  // when that event was seen

	Session   string
	Node      string
	Recorder  *eventpb.Session // of the last start; nil before the first
	Profile   *profile.Profile // nil without one
	FirstSeen int64            // when the first event was seen

	Sources map[string]*Source
	Kube    map[eventpb.Kind]kubeObjects
	// kubePending holds lists whose last part is not there yet.
	kubePending map[eventpb.Kind]kubeObjects
	Agent       Agent
	Maps        map[string]*Map // by the pin's file name
	LB          LB
	Host        Host
	Logs        map[Name]*Log
	Probes      map[string]*eventpb.ProbeResult
	Marks       []Mark
	Flows       uint64 // recorded since the start of the session; the flows themselves stay on the tape

	Baseline *Baseline // of the profile's Service

	missed  map[missedKey]*missed // and not yet over for long
	owners  map[frontendKey]Owner // what last owned each frontend in the map
	left    []leftSlot            // in order of when they left
	drops   map[dropKey]*drops
	book    book
	joins   joins
	touched touched
	Unknown uint64 // events whose kind this version does not know
}

// Name is a namespaced Kubernetes name; nodes have no namespace.
type Name struct{ Namespace, Name string }

func (n Name) String() string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "/" + n.Name
}

// Source is what is known of one source.
type Source struct {
	State   eventpb.SourceState
	Error   string
	SinceNs int64 // when it got into that state
	Events  uint64
	Gaps    uint64
	LastGap *Gap
	// epoch counts its breaks. What was not seen again in the current epoch goes when it is up.
	epoch uint64
}

// Gap is an interval in which a source saw nothing, or not all.
type Gap struct {
	FromNs, ToNs int64
	Reason       eventpb.GapReason
	Count        uint64
	Detail       string
}

// Mark is a person's note.
type Mark struct {
	Seq    uint64
	SeenNs int64
	Text   string
}

// NewState is what is known before the first event.
func NewState() *State {
	return &State{
		Sources:     map[string]*Source{},
		Kube:        map[eventpb.Kind]kubeObjects{},
		kubePending: map[eventpb.Kind]kubeObjects{},
		Agent:       Agent{},
		Maps:        map[string]*Map{},
		LB:          newLB(),
		Host:        newHost(),
		Logs:        map[Name]*Log{},
		Probes:      map[string]*eventpb.ProbeResult{},
		missed:      map[missedKey]*missed{},
		owners:      map[frontendKey]Owner{},
		drops:       map[dropKey]*drops{},
		book:        newBook(),
		joins:       newJoins(),
		touched:     newTouched(),
	}
}

func (s *State) source(name string) *Source {
	src := s.Sources[name]
	if src == nil {
		src = &Source{}
		s.Sources[name] = src
	}
	return src
}
