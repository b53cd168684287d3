package projections

// ghost.json: a Service without backends.
type ghostFile struct {
	ClusterIP         *string  `json:"cluster_ip"`
	Backends          *int     `json:"backends"`
	CurlExit          *int32   `json:"curl_exit"`
	Seconds           *float64 `json:"seconds"`
	NoBackendResponse *string  `json:"no_backend_response"`
}

func ghostView(s *State, w *waits) any {
	p := s.Profile.Ghost
	svc := s.service(s.Profile.Namespace, p.Service)
	if svc == nil {
		need(w, "kube", w.service(p.Service), 0, false)
		return nil
	}
	ip, hasIP := clusterIP(svc)
	backends, listed := s.Agent.backendCount(s.Profile.Namespace, p.Service, p.Port)
	response, haveResponse := s.NoBackendResponse()
	probe := s.Probes[probeGhost]
	request := "a request to it from the pod " + p.ProbePod
	return ghostFile{
		ClusterIP:         need(w, "kube", "a ClusterIP of "+svc.Name, ip.String(), hasIP),
		Backends:          need(w, "agent", svc.Name+" in the agent's list", backends, listed),
		CurlExit:          need(w, "probe", request, probe.GetExitCode(), probe != nil),
		Seconds:           need(w, "probe", request, probe.GetSeconds(), probe != nil),
		NoBackendResponse: need(w, "agent", "the agent's configuration", response, haveResponse),
	}
}
