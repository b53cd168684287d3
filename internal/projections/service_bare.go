package projections

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// bareFile is a Service that has no frontend in the map at some of its addresses, or at all.
type bareFile struct {
	Service string   `json:"service"`
	UID     string   `json:"uid"`
	Type    string   `json:"type"`
	Missing []string `json:"missing"` // ip:port/PROTO, nodePort:port/PROTO; none of a Service that has no addresses
	Why     string   `json:"why"`
}

// noteBare follows which of the touched Services lack frontends.
func (s *State) noteBare() {
	for n := range s.touched.services {
		if o := s.service(n.Namespace, n.Name); o != nil && s.bare(o) {
			s.joins.bare[n] = struct{}{}
		} else {
			delete(s.joins.bare, n)
		}
	}
}

func (s *State) bare(o *eventpb.KubeObject) bool {
	all := addressesOf(o)
	return len(all) == 0 || slices.ContainsFunc(all, func(a l4) bool { return !s.hasFrontend(a) }) ||
		slices.ContainsFunc(nodePortsOf(o), func(a l4) bool { return !s.hasNodePort(a) })
}

func (s *State) hasFrontend(a l4) bool {
	for _, proto := range []cilium.Proto{a.proto, cilium.Any} {
		for scope := range uint8(2) {
			if s.LB.frontends[frontendKey{a.address, proto, scope}] != nil {
				return true
			}
		}
	}
	return false
}

func (s *State) hasNodePort(a l4) bool {
	for k := range s.LB.ports[a.address.Port()] {
		if k.proto == a.proto || k.proto == cilium.Any {
			return true
		}
	}
	return false
}

func (s *State) writeBare(b *bytes.Buffer, known bool) {
	l := listWriter{b: b}
	if known {
		for _, n := range slices.SortedFunc(maps.Keys(s.joins.bare), Name.compare) {
			l.add(oneLine(s.bareOf(n, s.service(n.Namespace, n.Name))))
		}
	}
	l.end(known)
}

func (s *State) bareOf(n Name, o *eventpb.KubeObject) bareFile {
	row := bareFile{Service: n.String(), UID: o.Uid, Type: o.GetService().GetType(), Missing: []string{}}
	var lacking []l4
	for _, a := range addressesOf(o) {
		if !s.hasFrontend(a) {
			lacking = append(lacking, a)
		}
	}
	slices.SortFunc(lacking, l4.compare)
	for _, a := range lacking {
		row.Missing = append(row.Missing, a.String())
	}
	for _, a := range nodePortsOf(o) {
		if !s.hasNodePort(a) {
			row.Missing = append(row.Missing, fmt.Sprintf("nodePort:%d/%s", a.address.Port(), a.proto))
		}
	}
	row.Why = s.whyBare(o, lacking)
	return row
}

func (s *State) whyBare(o *eventpb.KubeObject, lacking []l4) string {
	if why := notServed(o); why != "" {
		return why
	}
	for _, a := range lacking {
		kind, family := cilium.Services4, "IPv4"
		if a.address.Addr().Is6() {
			kind, family = cilium.Services6, "IPv6"
		}
		if s.mapOf(kind) == nil {
			return "no map of " + family + " Services was read"
		}
	}
	for _, a := range lacking {
		if row, ok := s.agentRow(frontendKey{a.address, a.proto, 0}); ok {
			return "not yet: the agent has it" + row.progress()
		}
	}
	if s.Agent["frontend"] != nil && len(lacking) > 0 {
		return "not yet: the agent has not got it"
	}
	return "not yet"
}

// notServed tells why Cilium leaves a Service alone, or has nothing to serve; empty for one that it serves.
func notServed(o *eventpb.KubeObject) string {
	svc := o.GetService()
	proxy, left := o.Labels["service.kubernetes.io/service-proxy-name"]
	_, headless := o.Labels["service.kubernetes.io/headless"]
	switch {
	case left:
		return "label service.kubernetes.io/service-proxy-name: left to " + proxy
	case svc.GetType() == "ExternalName":
		return "ExternalName: a name for " + svc.GetExternalName() + ", without an address"
	case slices.Contains(svc.GetClusterIps(), "None"):
		return "headless: clients connect to its endpoints"
	case headless:
		return "label service.kubernetes.io/headless"
	case len(svc.GetPorts()) == 0:
		return "no ports"
	case len(addressesOf(o)) == 0:
		return "no address yet"
	}
	for _, name := range []string{"service.cilium.io/node", "service.cilium.io/node-selector", "service.cilium.io/type"} {
		if v := o.Annotations[name]; v != "" {
			return "annotation " + strings.Join([]string{name, v}, ": ")
		}
	}
	return ""
}
