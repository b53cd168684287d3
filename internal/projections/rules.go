package projections

import (
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// rule is one thing that can be wrong. It judges only while the sources it needs are up, since else State is not
// what is.
type rule struct {
	name  string
	level string              // error, warning, info
	hold  time.Duration       // how long it must last: what is in flight between API, agent and map is no finding
	needs []string            // sources
	whole func(s *State) bool // what they told fits together; else what was found is kept, and nothing else is. nil: always
	means string              // for connections, and what to do

	// One of these. A frontend rule is asked when a frontend, or what its row in services.json is made of, changed
	// or went (f is nil then); a Service rule when the Service, its slices or frontends changed or went (o is nil
	// then); a backend rule when a backend came or went, or what leads to one that is gone changed; a node rule when one of
	// its topics changed.
	frontend func(s *State, k frontendKey, f *Frontend) []problem
	service  func(s *State, n Name, o *eventpb.KubeObject) []problem
	backend  func(s *State, b backendKey) []problem
	node     func(s *State) []problem
	on       []topic
}

// Levels of findings.
const (
	LevelError   = "error"
	LevelWarning = "warning"
	LevelInfo    = "info"
)

// rules are all of them.
var rules = []*rule{
	&slotWithoutBackend,
	&slotCount,
	&staleBackend,
	&missingBackend,
	&backendState,
	&staleConntrack,
	&agentAndMap,
	&agentError,
	&agentPending,
	&frontendLeftBehind,
	&frontendMissing,
	&hostPortMissing,
	&addressClaimedTwice,
	&familyWithoutBackends,
	&portWithoutEndpoints,
	&endpointUnpaired,
	&packetsDropped,
	&packetsRefused,
	&replacementOff,
	&kubeProxyBeside,
	&kubeProxyLeft,
	&rulesHidden,
	&socketLBCoverage,
	&socketLBDetached,
	&socketLBElsewhere,
	&socketLBIncomplete,
	&programMissing,
	&programDoubled,
	&pinUnused,
	&mapPressure,
	&listenerCollision,
	&neighbourFailed,
	&neighbourMissing,
	&healthServer,
	&recorderGap,
}

// RuleNames are the names of all rules.
func RuleNames() []string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.name
	}
	return names
}

var (
	ruleNamed = map[string]*rule{}
	meaning   = map[string]string{}
	levels    = map[string]string{}
)

func init() {
	for _, r := range rules {
		ruleNamed[r.name], meaning[r.name], levels[r.name] = r, r.means, r.level
	}
}

// judges says that the sources a rule needs are up.
func (s *State) judges(r *rule) bool {
	for _, name := range r.needs {
		if src := s.Sources[name]; src == nil || src.State != eventpb.SourceState_SOURCE_STATE_UP {
			return false
		}
	}
	return true
}

// judge asks the rules about what the event that is being folded has touched.
func (s *State) judge() {
	s.rememberOwners()
	fronts, services, backends := s.touchedFrontends(), s.touchedServices(), s.touchedBackends()
	for _, r := range rules {
		if !s.judges(r) {
			continue
		}
		switch {
		case r.frontend != nil:
			for _, k := range fronts {
				s.book.take(s, r, k.String(), r.frontend(s, k, s.LB.frontends[k]))
			}
		case r.service != nil:
			for _, n := range services {
				s.book.take(s, r, n.String(), r.service(s, n, s.service(n.Namespace, n.Name)))
			}
		case r.backend != nil:
			for _, b := range backends {
				s.book.take(s, r, b.String(), r.backend(s, b))
			}
		case !s.changed(r.on):
		case r.whole != nil && !r.whole(s):
			s.book.doubt(s, r)
		default:
			s.book.take(s, r, "", r.node(s))
		}
	}
	s.book.ripen(s)
}
