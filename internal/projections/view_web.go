package projections

import (
	"fmt"
	"net/netip"
	"slices"
)

// iptables.json: who runs the Services.
type iptablesFile struct {
	ClusterIP            *string `json:"cluster_ip"`
	KubeSvcLines         *int    `json:"kube_svc_lines"`
	ClusterIPLines       *int    `json:"cluster_ip_lines"`
	CiliumLines          *int    `json:"cilium_lines"`
	KubeProxyReplacement *string `json:"kube_proxy_replacement"`
}

func iptablesView(s *State, w *waits) any {
	web := s.service(s.Profile.Namespace, s.Profile.Web.Service)
	if web == nil {
		need(w, "kube", w.service(s.Profile.Web.Service), 0, false)
		return nil
	}
	ip, hasIP := clusterIP(web)
	lines, haveLines := s.Host.rules()
	mode, haveMode := s.KubeProxyReplacement()
	f := iptablesFile{
		ClusterIP:            need(w, "kube", "a ClusterIP of "+s.Profile.Web.Service, ip.String(), hasIP),
		KubeSvcLines:         need(w, "host", waitRules, countLines(lines, "KUBE-SVC"), haveLines),
		CiliumLines:          need(w, "host", waitRules, countLines(lines, "CILIUM"), haveLines),
		KubeProxyReplacement: need(w, "agent", waitStatus, mode, haveMode),
	}
	if hasIP {
		f.ClusterIPLines = need(w, "host", waitRules, countWhole(lines, ip.String()), haveLines)
	}
	return f
}

const (
	waitRules  = "the output of iptables-save"
	waitStatus = "the agent's status"
	waitMaps   = "the Service maps"
)

func (w *waits) service(name string) string {
	return "the Service " + Name{w.s.Profile.Namespace, name}.String()
}

func (w *waits) podNamed(name string) string {
	return "the pod " + Name{w.s.Profile.Namespace, name}.String()
}

// webFrontend returns the ClusterIP frontend of the profile's Service as it is in the map.
func (s *State) webFrontend() (*Frontend, bool) {
	ip, ok := clusterIP(s.service(s.Profile.Namespace, s.Profile.Web.Service))
	if !ok {
		return nil, false
	}
	return s.LB.frontend(netip.AddrPortFrom(ip, uint16(s.Profile.Web.Port)))
}

// svc.json: the baseline.
type svcFile struct {
	ServiceID   *uint16  `json:"service_id"`
	Frontend    *string  `json:"frontend"`
	Backends    []string `json:"backends"`
	BackendPods []string `json:"backend_pods"`
}

func svcView(s *State, w *waits) any {
	web := s.service(s.Profile.Namespace, s.Profile.Web.Service)
	if web == nil {
		need(w, "kube", w.service(s.Profile.Web.Service), 0, false)
		return nil
	}
	if b := s.Baseline; b != nil {
		need(w, "bpfmap", "", 0, true)
		front := b.Frontend.String()
		return svcFile{&b.ServiceID, &front, addressTexts(b.Backends), b.Pods}
	}
	front, ok := s.webFrontend()
	f := svcFile{}
	if need(w, "bpfmap", waitMaps, 0, ok) != nil {
		text := front.Address.String()
		f.ServiceID, f.Frontend = &front.ID, &text
	}
	w.until(false, "map slots and ready addresses to agree on the first backends")
	return f
}

// scale.json: the slots now.
type scaleFile struct {
	Backends    []string `json:"backends"`
	NewBackends []string `json:"new_backends"`
}

func scaleView(s *State, w *waits) any {
	web := s.service(s.Profile.Namespace, s.Profile.Web.Service)
	if web == nil {
		need(w, "kube", w.service(s.Profile.Web.Service), 0, false)
		return nil
	}
	front, ok := s.webFrontend()
	if need(w, "bpfmap", waitMaps, 0, ok) == nil {
		return scaleFile{}
	}
	slots := s.LB.slots(front)
	f := scaleFile{Backends: addressTexts(slots)}
	if s.Baseline == nil {
		w.until(false, "the baseline of svc.json")
		return f
	}
	f.NewBackends = []string{}
	for _, b := range slots {
		if !slices.Contains(s.Baseline.Backends, b) {
			f.NewBackends = append(f.NewBackends, b.String())
		}
	}
	ready, _ := s.readyBackends(web, servicePort(web, s.Profile.Web.Port))
	w.until(len(f.NewBackends) > 0, "backends beyond the baseline of svc.json")
	w.until(slices.Equal(slots, ready), "map slots and ready addresses to agree")
	w.until(len(slots) == s.Profile.Web.ScaledTo, fmt.Sprintf("%s to have %d backends", w.service(s.Profile.Web.Service), s.Profile.Web.ScaledTo))
	return f
}

// addressTexts is never nil: an empty list is [], not null.
func addressTexts(list []netip.AddrPort) []string {
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.String()
	}
	return texts
}
