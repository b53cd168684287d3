package projections

import (
	"net/netip"
	"strconv"
)

// nodeport.json: a port that answers and that nobody listens on.
type nodePortFile struct {
	NodeIP        *string `json:"node_ip"`
	NodePort      *int32  `json:"node_port"`
	HTTPCode      *int32  `json:"http_code"`
	IptablesLines *int    `json:"iptables_lines"`
	ListenSockets *int    `json:"listen_sockets"`
	ServiceID     *uint16 `json:"service_id"`
}

func nodePortView(s *State, w *waits) any {
	svc := s.service(s.Profile.Namespace, s.Profile.NodePort.Service)
	if svc == nil {
		need(w, "kube", w.service(s.Profile.NodePort.Service), 0, false)
		return nil
	}
	ip, ok := s.internalIP()
	f := nodePortFile{NodeIP: need(w, "kube", "the node's InternalIP", ip.String(), ok)}
	nodePort := servicePort(svc, s.Profile.NodePort.Port).GetNodePort()
	if f.NodePort = need(w, "kube", "a nodePort of "+svc.Name, nodePort, nodePort != 0); f.NodePort == nil {
		return f
	}
	port := strconv.Itoa(int(nodePort))
	probe := s.Probes[probeNodePort]
	f.HTTPCode = need(w, "probe", "an answer from port "+port, probe.GetHttpCode(), probe != nil)
	lines, ok := s.Host.rules()
	f.IptablesLines = need(w, "host", waitRules, countWhole(lines, port), ok)
	listening, ok := s.Host.listening(port)
	f.ListenSockets = need(w, "host", "the node's listening sockets", listening, ok)
	front, ok := s.LB.frontend(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(nodePort)))
	if need(w, "bpfmap", "the frontend 0.0.0.0:"+port+" in the map", 0, ok) != nil {
		f.ServiceID = &front.ID
	}
	if f.HTTPCode != nil {
		w.until(*f.HTTPCode != 0, "an answer from port "+port)
	}
	return f
}

// nodePortLines counts the lines of iptables-save with the profile's nodePort.
func (s *State) nodePortLines() (int, bool) {
	svc := s.service(s.Profile.Namespace, s.Profile.NodePort.Service)
	port := servicePort(svc, s.Profile.NodePort.Port).GetNodePort()
	lines, ok := s.Host.rules()
	return countWhole(lines, strconv.Itoa(int(port))), ok && port != 0
}
