package projections

type endpointsFile struct{}

func endpointsView(s *State, w *waits) any { return endpointsFile{} }
