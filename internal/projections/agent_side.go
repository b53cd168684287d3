package projections

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// What the reconciler of the agent says of a row.
const (
	reconciledDone    = "Done"
	reconciledPending = "Pending"
	reconciledError   = "Error"
)

// agentKnown says that the agent's table of frontends is known as it is now.
func (s *State) agentKnown() bool {
	src := s.Sources["agent"]
	return s.Agent["frontend"] != nil && src != nil && src.State == eventpb.SourceState_SOURCE_STATE_UP
}

// agentRowOf is the agent's row that makes a frontend of the map. NodePort and HostPort frontends at a node's own addresses are
// made of the row of 0.0.0.0 or [::].
func (s *State) agentRowOf(k frontendKey, f *Frontend) (frontendRow, bool) {
	if row, ok := s.agentRow(k); ok || f == nil || f.Flags&(cilium.FlagNodePort|cilium.FlagHostPort) == 0 {
		return row, ok
	}
	k.address = netip.AddrPortFrom(unspecified(k.v6()), k.address.Port())
	return s.agentRow(k)
}

func unspecified(v6 bool) netip.Addr {
	if v6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// touchRow touches the frontends that an agent's row makes.
func (s *State) touchRow(k frontendKey) {
	for _, proto := range []cilium.Proto{k.proto, cilium.Any} {
		for scope := range uint8(2) {
			if other := (frontendKey{k.address, proto, scope}); s.LB.frontends[other] != nil {
				s.LB.touch(other)
			}
		}
	}
	s.LB.touch(k)
	if k.address.Addr().IsUnspecified() {
		s.touchPort(k.address.Port())
	}
}

// agentWish is a backend of an agent's row.
type agentWish struct {
	wish
	unhealthy bool
}

// backendsOf are the row's backends by address. Those that are neither active nor terminating may have a slot or not, which
// depends on Cilium's version.
func (row *frontendRow) backendsOf(k frontendKey) []agentWish {
	list := make([]agentWish, 0, len(row.Backends))
	for _, b := range row.Backends {
		fk, ok := frontendKeyOf(b.Address)
		if !ok {
			continue
		}
		w := agentWish{wish{at: l4{fk.address, ofFrontend(k, fk.proto)}}, b.Unhealthy}
		switch b.State {
		case 0:
			w.must = true
		case 1:
			w.state, w.must = wishLeaving, true
		default:
			w.state = wishIdle
		}
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b agentWish) int {
		return cmp.Or(a.at.address.Compare(b.at.address), cmp.Compare(a.at.proto, b.at.proto))
	})
	return slices.CompactFunc(list, func(a, b agentWish) bool { return a.at == b.at })
}

// agentSays tells which side is late about one backend of a frontend: the agent, which does not know yet what the API says, or
// the map, which the agent has not written. held says whether the map has the backend.
func (s *State) agentSays(k frontendKey, f *Frontend, at l4, held bool) string {
	if !s.agentKnown() {
		return ""
	}
	row, ok := s.agentRowOf(k, f)
	if !ok {
		return "; the agent has no such frontend"
	}
	has := slices.ContainsFunc(row.backendsOf(k), func(w agentWish) bool { return w.at == at && (w.must || held) })
	switch {
	case has && held:
		return "; the agent has it too: the agent is behind the API"
	case !has && !held:
		return "; the agent has not got it either: the agent is behind the API"
	case has:
		return "; the agent has it" + row.progress()
	}
	return "; the agent has it no more" + row.progress()
}

// progress tells how far the agent is with writing a row.
func (row *frontendRow) progress() string {
	switch row.reconciled {
	case reconciledError:
		return " and fails to write the map: " + cmp.Or(row.Status.Error, "no reason given")
	case reconciledPending:
		return " and is yet to write the map (Pending)"
	}
	text := ": the map is behind the agent"
	if at := stamp(row.reconciledNs); at != nil {
		text += ", which says that it wrote it at " + *at
	}
	return text
}
