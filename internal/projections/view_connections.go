package projections

type connectionsFile struct{}

func connectionsView(s *State, w *waits) any { return connectionsFile{} }
