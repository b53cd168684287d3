package projections

// agentStatus is what the agent says of how it runs, as far as files and rules rest on it.
type agentStatus struct {
	Replacement struct {
		Mode                string
		Devices             []agentDevice `json:"deviceList"`
		DirectRoutingDevice string
		Features            *agentFeatures
	} `json:"kube-proxy-replacement"`
	Routing struct {
		Mode   string `json:"inter-host-routing-mode"`
		Tunnel string `json:"tunnel-protocol"`
	}
	Clock *struct {
		Mode  string // ktime, jiffies
		Hertz uint32
	} `json:"clock-source"`
}

type agentDevice struct {
	Name string
	IP   []string // also empty ones
}

// agentFeatures are those that `cilium-dbg status --verbose` prints as details of the replacement. What is false the agent
// leaves out.
type agentFeatures struct {
	Annotations []string
	HostnsOnly  bool `json:"bpfSocketLBHostnsOnly"`
	ExternalIPs enabled
	Graceful    *enabled `json:"gracefulTermination"` // up to Cilium 1.18
	HostPort    enabled
	NAT46       struct {
		Gateway struct {
			enabled
			Prefixes []string
		}
		Service enabled
	} `json:"nat46X64"`
	NodePort struct {
		enabled
		Acceleration, Algorithm, DSRMode, Mode string
		LutSize, PortMin, PortMax              int64
	}
	SessionAffinity, SocketLB, SocketLBTracing enabled
}

type enabled struct{ Enabled bool }

// agentConfig is the agent's configuration, likewise.
type agentConfig struct {
	CGroupRoot                   string
	DirectRoutingSkipUnreachable bool
	EnableAutoDirectRouting      bool
	EnableEndpointRoutes         bool
	EnableIPv4, EnableIPv6       bool
	K8sServiceProxyName          *string // of versions that tell it
	NodePortBindProtection       bool
	ServiceNoBackendResponse     string
	Socket                       agentSocketConfig `json:"UnsafeDaemonConfigOption"`
	agentSocketConfig                              // where it stood before Cilium 1.19
}

type agentSocketConfig struct {
	EnableHealthDatapath                   bool
	EnableSocketLBPeer                     bool
	EnableSocketLBPodConnectionTermination bool
	EnableSocketLBTracing                  *bool
}

// noteStatus keeps the agent's status decoded. On the mode of kube-proxy replacement depends which frontends there are.
func (s *State) noteStatus() {
	before, _ := s.KubeProxyReplacement()
	s.joins.status = nil
	if st := (agentStatus{}); s.Agent.decode("status", "", &st) {
		s.joins.status = &st
	}
	if now, _ := s.KubeProxyReplacement(); now != before {
		s.touchServices()
	}
}

func (s *State) noteConfig() {
	s.joins.config = nil
	if c := (agentConfig{}); s.Agent.decode("config", "", &c) {
		s.joins.config = &c
	}
}

// KubeProxyReplacement is the mode as the agent spells it; false while it is not known.
func (s *State) KubeProxyReplacement() (string, bool) {
	if s.joins.status == nil {
		return "", false
	}
	mode := s.joins.status.Replacement.Mode
	return mode, mode != ""
}

// kubeProxyReplaced says that the agent serves NodePorts and hostPorts.
func (s *State) kubeProxyReplaced() bool {
	mode, _ := s.KubeProxyReplacement()
	return mode == "True"
}

// features are nil while they are not known.
func (s *State) features() *agentFeatures {
	if s.joins.status == nil {
		return nil
	}
	return s.joins.status.Replacement.Features
}

// SocketLBCoverage is what `cilium-dbg status --verbose` prints as Socket LB Coverage, Full or Hostns-only; false while it is not
// known.
func (s *State) SocketLBCoverage() (string, bool) {
	switch f := s.features(); {
	case f == nil:
		return "", false
	case f.HostnsOnly:
		return "Hostns-only", true
	}
	return "Full", true
}

// NoBackendResponse is reject or drop; false while it is not known.
func (s *State) NoBackendResponse() (string, bool) {
	if s.joins.config == nil {
		return "", false
	}
	response := s.joins.config.ServiceNoBackendResponse
	return response, response != ""
}
