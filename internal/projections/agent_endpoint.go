package projections

import (
	"encoding/json"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// agentEndpoint is one endpoint of the agent's list.
type agentEndpoint struct {
	id        int64
	state     string
	identity  int64
	device    string
	ifindex   int32
	addresses []netip.Addr
	reserved  string // host, health: no pod's
}

// joinEndpoints keeps the agent's endpoints decoded.
func (s *State) joinEndpoints(b *eventpb.AgentObjects) {
	if b.Complete {
		clear(s.joins.endpoints)
	}
	for _, o := range b.Objects {
		delete(s.joins.endpoints, o.Key)
		if e, ok := decodeEndpoint(o.Json); ok && !o.Deleted {
			s.joins.endpoints[o.Key] = e
		}
	}
}

func decodeEndpoint(text []byte) (agentEndpoint, bool) {
	var v struct {
		ID     int64 `json:"id"`
		Status struct {
			State    string `json:"state"`
			Identity struct {
				ID     int64    `json:"id"`
				Labels []string `json:"labels"`
			} `json:"identity"`
			Networking struct {
				Addressing []struct{ IPv4, IPv6 string } `json:"addressing"`
				Name       string                        `json:"interface-name"`
				Index      int32                         `json:"interface-index"`
			} `json:"networking"`
		} `json:"status"`
	}
	if json.Unmarshal(text, &v) != nil || v.ID == 0 {
		return agentEndpoint{}, false
	}
	st := &v.Status
	e := agentEndpoint{id: v.ID, state: st.State, identity: st.Identity.ID, device: st.Networking.Name, ifindex: st.Networking.Index}
	for _, a := range st.Networking.Addressing {
		for _, text := range []string{a.IPv4, a.IPv6} {
			if ip, err := netip.ParseAddr(text); err == nil {
				e.addresses = append(e.addresses, ip)
			}
		}
	}
	slices.SortFunc(e.addresses, netip.Addr.Compare)
	for _, kind := range []string{"host", "health"} {
		if slices.Contains(st.Identity.Labels, "reserved:"+kind) {
			e.reserved = kind
		}
	}
	return e, true
}
