package projections

import (
	"fmt"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// How full a map is when it is told, and when that is over, in percent.
const (
	nearlyFull  = 90
	roomyAgain  = 85
	hundredPart = 100
)

// mapPressure: a map is nearly full. Those that are meant to fill, and forget what was used least (translations of sockets,
// affinity, neighbours), are left out.
var mapPressure = rule{
	name: "map-pressure", level: LevelWarning, hold: 2 * time.Second, needs: []string{"bpfmap"},
	means: "when it is full, the agent cannot add Services, backends, endpoints, identities or policy, and connection tracking and NAT forget connections that live; raise its size (bpf-lb-map-max, bpf-policy-map-max, bpf-ct-global-tcp-max, bpf-map-dynamic-size-ratio and so on), or find what fills it",
	on:    []topic{topicMaps, topicServices, topicConnections, topicPins},
	node: func(s *State) (found []problem) {
		for name, m := range s.Maps {
			if m.MaxEntries == 0 || !mustNotFill(m.Kind) {
				continue
			}
			limit := nearlyFull
			if s.book.text("map-pressure", name) != "" {
				limit = roomyAgain
			}
			if len(m.Entries)*hundredPart < limit*int(m.MaxEntries) {
				continue
			}
			what := "refuses more"
			if strings.HasPrefix(m.Type, "LRU") {
				what = "drops old entries for new ones"
			}
			found = append(found, problem{subject: name, text: fmt.Sprintf("%s has room for %d entries and is nearly full, after which it %s", name, m.MaxEntries, what)})
		}
		return found
	},
}

func mustNotFill(k cilium.Kind) bool {
	switch k {
	case cilium.CT4TCP, cilium.CT4Any, cilium.CT6TCP, cilium.CT6Any, cilium.SNAT4, cilium.SNAT6,
		cilium.Services4, cilium.Services6, cilium.Backends4, cilium.Backends6, cilium.RevNAT4, cilium.RevNAT6,
		cilium.Policy, cilium.IPCache, cilium.Endpoints, cilium.SourceRange4, cilium.SourceRange6:
		return true
	}
	return false
}
