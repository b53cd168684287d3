package projections

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// local is one endpoint of this node, or a pod that has none, put together of the agent's list, cilium_lxc, the pods and the
// CiliumEndpoints. What one of them does not have is nil or empty.
type local struct {
	id        int64 // 0 for a pod without an endpoint
	pod       *eventpb.KubeObject
	agent     *agentEndpoint
	entries   []cilium.Endpoint // of cilium_lxc, by address
	resource  *eventpb.KubeObject
	addresses []netip.Addr // of all of them, ascending
}

// locals are all of them, by id and then by pod. What belongs to no endpoint id is joined by its address.
func (s *State) locals() []*local {
	byID := map[int64]*local{}
	of := func(id int64) *local {
		if byID[id] == nil {
			byID[id] = &local{id: id}
		}
		return byID[id]
	}
	for _, key := range slices.Sorted(maps.Keys(s.joins.endpoints)) {
		e := s.joins.endpoints[key]
		l := of(e.id)
		l.agent = &e
		l.add(e.addresses...)
	}
	for _, e := range s.lxc() {
		l := of(int64(e.ID))
		l.entries = append(l.entries, e)
		l.add(e.Address)
	}
	for _, o := range s.Objects(eventpb.Kind_KIND_CILIUM_ENDPOINT) {
		if id := o.GetCiliumEndpoint().GetEndpointId(); id != 0 {
			l := of(id)
			l.resource = o
			l.add(addrsOf(o.GetCiliumEndpoint().Addresses)...)
		}
	}
	list := slices.Collect(maps.Values(byID))
	list = append(list, s.assignPods(list)...)
	slices.SortFunc(list, (*local).compare)
	return list
}

// assignPods gives the endpoints their pods, and returns the pods that have none. Pods on the node's network have none by design.
func (s *State) assignPods(list []*local) []*local {
	byAddress := map[netip.Addr]*local{}
	slices.SortFunc(list, (*local).compare)
	for _, l := range list {
		for _, a := range l.addresses {
			if byAddress[a] == nil {
				byAddress[a] = l
			}
		}
	}
	var alone []*local
	for _, o := range s.Objects(eventpb.Kind_KIND_POD) {
		if !networked(o) {
			continue
		}
		var found *local
		addresses := addrsOf(o.GetPod().PodIps)
		for _, a := range addresses {
			if l := byAddress[a]; l != nil && l.pod == nil {
				found = l
				break
			}
		}
		if found == nil {
			found = &local{}
			found.add(addresses...)
			alone = append(alone, found)
		}
		found.pod = o
	}
	return alone
}

// networked says that a pod has a network of its own and has not ended.
func networked(o *eventpb.KubeObject) bool {
	p := o.GetPod()
	return p != nil && !p.HostNetwork && len(p.PodIps) > 0 && p.Phase != "Succeeded" && p.Phase != "Failed"
}

// lxc are the endpoints of cilium_lxc by address, less the node's own addresses.
func (s *State) lxc() []cilium.Endpoint {
	m := s.mapOf(cilium.Endpoints)
	if m == nil {
		return nil
	}
	list := make([]cilium.Endpoint, 0, len(m.Entries))
	for k, v := range m.Entries {
		if e, err := cilium.DecodeEndpoint([]byte(k), []byte(v.Bytes)); err == nil && !e.Host() && e.Address.IsValid() {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b cilium.Endpoint) int { return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.ID, b.ID)) })
	return list
}

func (l *local) add(addresses ...netip.Addr) {
	for _, a := range addresses {
		if i, found := slices.BinarySearchFunc(l.addresses, a, netip.Addr.Compare); !found {
			l.addresses = slices.Insert(l.addresses, i, a)
		}
	}
}

// compare puts pods without an endpoint last.
func (l *local) compare(o *local) int {
	if (l.id == 0) != (o.id == 0) {
		return cmp.Compare(o.id, l.id)
	}
	return cmp.Or(cmp.Compare(l.id, o.id), l.podName().compare(o.podName()))
}

// podName is the pod's name; of an endpoint whose pod is not known, that of its CiliumEndpoint, which is the same.
func (l *local) podName() Name {
	o := cmp.Or(l.pod, l.resource)
	return Name{o.GetNamespace(), o.GetName()}
}

// reserved is host or health for an endpoint that is no pod's.
func (l *local) reserved() string {
	if l.agent != nil {
		return l.agent.reserved
	}
	return ""
}

func addrsOf(texts []string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			list = append(list, a)
		}
	}
	return list
}
