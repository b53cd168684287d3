package projections

type nodeFile struct{}

func nodeView(s *State, w *waits) any { return nodeFile{} }
