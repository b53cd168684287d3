package projections

import (
	"cmp"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// endpoints.json: the node's Cilium endpoints, and its pods without one.
type endpointsFile struct {
	Endpoints []endpointRow `json:"endpoints"`
}

type endpointRow struct {
	EndpointID *int64       `json:"endpoint_id"`
	Reserved   *string      `json:"reserved"` // host, health; null for a pod's
	Pod        *podRef      `json:"pod"`
	Identity   *int64       `json:"identity"`
	Addresses  []string     `json:"addresses"`
	State      *string      `json:"state"`
	Device     *string      `json:"device"`
	Ifindex    *int32       `json:"ifindex"`
	Programs   []programRow `json:"programs"` // null while the host was not read
	PolicyMap  *policyRow   `json:"policy_map"`
	// Who has it; null while that is not known.
	InMap            *bool `json:"in_map"`
	InAgent          *bool `json:"in_agent"`
	InCiliumEndpoint *bool `json:"in_cilium_endpoints"`
}

type podRef struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	UID       *string `json:"uid"` // null when there is no such pod
}

type programRow struct {
	Attach  string `json:"attach"`
	Order   int    `json:"order"` // among those of its hook, from 1
	Program string `json:"program"`
	ID      uint32 `json:"id"`
}

type policyRow struct {
	Name       string `json:"name"`
	Entries    *int   `json:"entries"`
	MaxEntries uint32 `json:"max_entries"`
}

func endpointsView(s *State, w *waits) any {
	f := endpointsFile{Endpoints: []endpointRow{}}
	need(w, "agent", "the agent's list of endpoints", 0, s.Agent["endpoint"] != nil)
	need(w, "bpfmap", "the map cilium_lxc", 0, s.mapOf(cilium.Endpoints) != nil)
	need(w, "host", "the programs of the node's devices", 0, s.Host.Attachments != nil)
	need(w, "kube", "the node's pods", 0, s.Kube[eventpb.Kind_KIND_POD] != nil)
	programs, policies := s.programsByDevice(), s.policiesByEndpoint()
	for _, l := range s.locals() {
		f.Endpoints = append(f.Endpoints, s.endpointRow(l, programs, policies))
	}
	return f
}

func (s *State) endpointRow(l *local, programs map[int32][]programRow, policies map[int64]*Map) endpointRow {
	r := endpointRow{
		EndpointID: unlessZero(l.id), Reserved: unlessZero(l.reserved()), Pod: l.podRef(), Addresses: []string{},
		InMap:            when(s.mapOf(cilium.Endpoints) != nil, len(l.entries) > 0),
		InAgent:          when(s.Agent["endpoint"] != nil, l.agent != nil),
		InCiliumEndpoint: when(s.Kube[eventpb.Kind_KIND_CILIUM_ENDPOINT] != nil, l.resource != nil),
	}
	for _, a := range l.addresses {
		r.Addresses = append(r.Addresses, a.String())
	}
	if a := l.agent; a != nil {
		r.Identity, r.State, r.Device, r.Ifindex = unlessZero(a.identity), unlessZero(a.state), unlessZero(a.device), unlessZero(a.ifindex)
	}
	if len(l.entries) > 0 {
		e := l.entries[0]
		r.Identity, r.Ifindex = cmp.Or(r.Identity, unlessZero(int64(e.Identity))), cmp.Or(r.Ifindex, unlessZero(int32(e.IfIndex)))
	}
	if r.Device == nil && r.Ifindex != nil {
		r.Device = s.deviceName(*r.Ifindex)
	}
	if s.Host.Attachments != nil {
		r.Programs = []programRow{}
		if r.Ifindex != nil {
			r.Programs = append(r.Programs, programs[*r.Ifindex]...)
		}
	}
	if m := policies[l.id]; m != nil {
		r.PolicyMap = &policyRow{m.Name, when(m.Readable, len(m.Entries)), m.MaxEntries}
	}
	return r
}

func (l *local) podRef() *podRef {
	n := l.podName()
	if n.Name == "" {
		return nil
	}
	return &podRef{n.Namespace, n.Name, unlessZero(l.pod.GetUid())}
}

// unlessZero is nil, null in a file, for what is not known.
func unlessZero[T comparable](v T) *T {
	var zero T
	return when(v != zero, v)
}

func when[T any](known bool, v T) *T {
	if !known {
		return nil
	}
	return &v
}

func (s *State) deviceName(ifindex int32) *string {
	for _, l := range s.Host.Links.GetLinks() {
		if l.Index == ifindex {
			return &l.Name
		}
	}
	return nil
}

// programsByDevice are the programs at each device's hooks, as they run.
func (s *State) programsByDevice() map[int32][]programRow {
	type hook struct {
		ifindex int32
		attach  string
	}
	n, all := map[hook]int{}, map[int32][]programRow{}
	for _, a := range s.Host.Attachments.GetAttachments() {
		if a.Ifindex != 0 {
			at := hook{a.Ifindex, a.Attach}
			n[at]++
			all[a.Ifindex] = append(all[a.Ifindex], programRow{a.Attach, n[at], a.Program, a.ProgramId})
		}
	}
	return all
}

// policiesByEndpoint are the policy maps, the newest version of each where an upgrade left the older one.
func (s *State) policiesByEndpoint() map[int64]*Map {
	all := map[int64]*Map{}
	for name, m := range s.Maps {
		if id, ok := cilium.PolicyEndpoint(name); ok && (all[int64(id)] == nil || name > all[int64(id)].Name) {
			all[int64(id)] = m
		}
	}
	return all
}
