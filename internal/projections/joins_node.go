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

// noteMode notes the mode of kube-proxy replacement, on which it depends which frontends there are.
func (s *State) noteMode() {
	mode, _ := s.Agent.kubeProxyReplacement()
	if mode != s.joins.mode {
		s.joins.mode = mode
		s.touchServices()
	}
}
