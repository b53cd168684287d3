package projections

import (
	"net/netip"
	"slices"
)

// baselineMark, set as a mark's text, takes the baseline anew.
const baselineMark = "svc"

// Baseline is the profile's Service as it was before the scale-up: the first moment since it came at which its
// slots in the map and its ready addresses agreed and were at least the profile's replicas. A smaller set is a
// rollout in progress, whose pods get ready one by one.
type Baseline struct {
	ServiceUID string
	ServiceID  uint16
	Frontend   netip.AddrPort
	Backends   []netip.AddrPort
	Pods       []string
}

// observeBaseline takes the baseline when its moment has come, and drops it with its Service.
func (s *State) observeBaseline() {
	if s.Profile == nil {
		return
	}
	web := s.service(s.Profile.Namespace, s.Profile.Web.Service)
	if s.Baseline != nil && (web == nil || web.Uid != s.Baseline.ServiceUID) {
		s.Baseline = nil
	}
	if web == nil || s.Baseline != nil {
		return
	}
	f, ok := s.webFrontend()
	if !ok {
		return
	}
	slots := s.LB.slots(f)
	ready, pods := s.readyBackends(web, servicePort(web, s.Profile.Web.Port))
	if len(slots) < s.Profile.Web.Replicas || !slices.Equal(slots, ready) {
		return
	}
	b := &Baseline{ServiceUID: web.Uid, ServiceID: f.ID, Frontend: f.Address, Backends: slots}
	for _, backend := range slots {
		b.Pods = append(b.Pods, pods[backend])
	}
	slices.Sort(b.Pods)
	s.Baseline = b
}
