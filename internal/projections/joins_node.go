package projections

// place is where this node is.
type place struct{ name, zone string }

// noteNode notes the place of this node, on which it depends which backends are local or near.
func (s *State) noteNode() {
	o := s.thisNode()
	at := place{o.GetName(), o.GetNode().GetZone()}
	if at != s.joins.node {
		s.joins.node = at
		s.touchFrontends()
		s.touchServices()
	}
}
