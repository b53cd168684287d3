package projections

import (
	"strconv"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// holderEndpoint returns the endpoint id of the profile's holder: its CiliumEndpoint has the pod's name, and is
// the old pod's until the agent has made the new one's.
func (s *State) holderEndpoint() (int64, bool) {
	p := s.Profile
	pod := s.pod(p.Namespace, p.Holder.Pod)
	ip, ok := podIP(pod)
	cep := s.Object(eventpb.Kind_KIND_CILIUM_ENDPOINT, p.Namespace, p.Holder.Pod).GetCiliumEndpoint()
	if !ok || cep.GetEndpointId() == 0 {
		return 0, false
	}
	for _, a := range cep.Addresses {
		if a == ip.String() {
			return cep.EndpointId, true
		}
	}
	return 0, false
}

// holderProgram returns the program that takes the packets which the holder sends.
func (s *State) holderProgram() (string, bool) {
	id, ok := s.holderEndpoint()
	if !ok {
		return "", false
	}
	_, ifindex, ok := s.Agent.device(strconv.FormatInt(id, 10))
	if !ok {
		return "", false
	}
	a, ok := s.Host.program(ifindex)
	return a.GetProgram(), ok
}
