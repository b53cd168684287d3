package projections

import (
	"fmt"
	"net/netip"
	"strconv"
)

// ct.json: one connection from three sides.
type ctFile struct {
	Client           *string `json:"client"`
	AppPeer          *string `json:"app_peer"`
	SocketPeer       *string `json:"socket_peer"`
	Backend          *string `json:"backend"`
	BackendPod       *string `json:"backend_pod"`
	SvcEntries       *int    `json:"svc_entries"`
	SocketLBCoverage *string `json:"socket_lb_coverage"`
}

func ctView(s *State, w *waits) any {
	holder := s.pod(s.Profile.Namespace, s.Profile.Holder.Pod)
	if holder == nil {
		need(w, "kube", w.podNamed(s.Profile.Holder.Pod), 0, false)
		return nil
	}
	port := strconv.Itoa(int(s.Profile.Holder.Port))
	coverage, haveCoverage := s.SocketLBCoverage()
	entries, haveCT := s.serviceEntries(s.Profile.Holder.Port)
	f := ctFile{
		SvcEntries:       need(w, "bpfmap", "the conntrack map", entries, haveCT),
		SocketLBCoverage: need(w, "agent", waitStatus, coverage, haveCoverage),
	}
	peer, ok := s.loggedPeer(Name{holder.Namespace, holder.Name}, holder.Uid)
	f.AppPeer = need(w, "podlog", "the peer's address in the log of "+holder.Name, peer, ok)
	peer, ok = s.Host.peerOf(holder, port)
	f.SocketPeer = need(w, "host", "an established socket from port "+port+" in "+holder.Name, peer, ok)

	client, ok := s.holderClient()
	if f.Client = need(w, "kube", "an address of "+holder.Name, client.String(), ok); f.Client == nil {
		return f
	}
	backend, ok := s.holderBackend()
	f.Backend = need(w, "bpfmap", "a live conntrack entry from "+client.String(), backend.String(), ok)
	if ok {
		pod, known := s.podWithIP(holder.Namespace, backend.Addr())
		f.BackendPod = need(w, "kube", "the pod with the address "+backend.Addr().String(), pod, known)
	}
	return f
}

func (s *State) loggedPeer(pod Name, uid string) (string, bool) {
	l := s.Logs[pod]
	if l == nil || l.PodUID != uid || l.Peer == "" {
		return "", false
	}
	return l.Peer, true
}

// holderClient is the holder's address and the port it connects from.
func (s *State) holderClient() (netip.AddrPort, bool) {
	ip, ok := podIP(s.pod(s.Profile.Namespace, s.Profile.Holder.Pod))
	return netip.AddrPortFrom(ip, s.Profile.Holder.Port), ok
}

// holderBackend is where the holder's live connection goes, by conntrack.
func (s *State) holderBackend() (netip.AddrPort, bool) {
	client, ok := s.holderClient()
	if !ok {
		return netip.AddrPort{}, false
	}
	return s.liveBackend(client)
}

// prog.json: the program on the holder's device.
type progFile struct {
	EndpointID    *int64  `json:"endpoint_id"`
	Interface     *string `json:"interface"`
	Ifindex       *int32  `json:"ifindex"`
	Attach        *string `json:"attach"`
	Program       *string `json:"program"`
	PolicyMap     *string `json:"policy_map"`
	TCFilterLines *int    `json:"tc_filter_lines"`
}

func progView(s *State, w *waits) any {
	holder := s.pod(s.Profile.Namespace, s.Profile.Holder.Pod)
	if holder == nil {
		need(w, "kube", w.podNamed(s.Profile.Holder.Pod), 0, false)
		return nil
	}
	f := progFile{}
	id, ok := s.holderEndpoint()
	if f.EndpointID = need(w, "kube", "the CiliumEndpoint of "+holder.Name, id, ok); f.EndpointID == nil {
		return f
	}
	policy, ok := s.policyMap(id)
	f.PolicyMap = need(w, "bpfmap", fmt.Sprintf("a policy map of endpoint %d", id), policy, ok)
	device, ifindex, ok := s.Agent.device(strconv.FormatInt(id, 10))
	f.Interface = need(w, "agent", fmt.Sprintf("endpoint %d in the agent's list", id), device, ok)
	if !ok {
		return f
	}
	f.Ifindex = &ifindex
	what := "a program on " + device
	if u := s.Host.Attachments.GetUnreadable(); len(u) > 0 {
		what += ", of which the host source cannot read all: " + u[0]
	}
	if a, ok := s.Host.program(ifindex); need(w, "host", what, 0, ok) != nil {
		f.Attach, f.Program = &a.Attach, &a.Program
	}
	lines, ok := s.Host.ingressFilterLines(ifindex)
	f.TCFilterLines = need(w, "host", "the tc filters of "+device, lines, ok)
	return f
}
