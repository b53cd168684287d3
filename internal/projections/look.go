package projections

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Entry is one entry of a map, with the key that names it on the tape.
type Entry[T any] struct {
	Map   string
	Key   string
	Value T
}

// EntriesOf decodes the maps of some kinds, in order of map and key; entries that cannot be decoded are left out.
func EntriesOf[T any](s *State, decode func(key, value []byte) (T, error), kinds ...cilium.Kind) []Entry[T] {
	var list []Entry[T]
	for _, m := range s.Maps {
		if !m.Readable || !slices.Contains(kinds, m.Kind) {
			continue
		}
		for k, v := range m.Entries {
			if d, err := decode([]byte(k), []byte(v.Bytes)); err == nil {
				list = append(list, Entry[T]{m.Name, k, d})
			}
		}
	}
	slices.SortFunc(list, func(a, b Entry[T]) int { return cmp.Or(cmp.Compare(a.Map, b.Map), cmp.Compare(a.Key, b.Key)) })
	return list
}

// MapOf returns the map of a kind, nil while it was not read or when its layout is not known.
func (s *State) MapOf(k cilium.Kind) *Map { return s.mapOf(k) }

// Objects are all Kubernetes objects of a kind, by name.
func (s *State) Objects(k eventpb.Kind) []*eventpb.KubeObject {
	return slices.SortedFunc(maps.Values(s.Kube[k]), func(a, b *eventpb.KubeObject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// AgentFrontend is a row of the agent's table of frontends: what the agent wants, and whether it wrote the map.
type AgentFrontend struct {
	Key          string
	Service      string // namespace/name
	Address      string // ip:port/PROTO, with /i for the internal scope
	Type         string
	Backends     []AgentBackend
	Reconciled   string // Pending, Done, Error
	ReconciledNs int64
}

// AgentBackend is one backend of a row.
type AgentBackend struct {
	Address netip.AddrPort
	State   string
}

// AgentFrontends are the rows of the agent's table of frontends, by key.
func (s *State) AgentFrontends() []AgentFrontend {
	var list []AgentFrontend
	for _, key := range slices.Sorted(maps.Keys(s.Agent["frontend"])) {
		row, ok := s.Agent.frontendRow(key)
		if !ok {
			continue
		}
		o := s.Agent["frontend"][key]
		f := AgentFrontend{key, row.ServiceName, row.Address, row.Type, nil, o.Reconciled, o.ReconciledNs}
		for _, b := range row.Backends {
			if a, ok := AddressOf(b.Address); ok {
				f.Backends = append(f.Backends, AgentBackend{a, agentBackendState(b.State)})
			}
		}
		list = append(list, f)
	}
	return list
}

// AddressOf reads an address as the agent writes it: ip:port/PROTO.
func AddressOf(text string) (netip.AddrPort, bool) {
	for i := range len(text) {
		if text[i] == '/' {
			text = text[:i]
			break
		}
	}
	a, err := netip.ParseAddrPort(text)
	return a, err == nil
}

// Sockets are those inside a pod; false while they were not listed.
func (s *State) Sockets(pod Name) ([]*eventpb.Socket, bool) {
	p := s.Host.PodSockets[pod]
	if p == nil {
		return nil, false
	}
	return p.sockets, true
}

// PodNames are the pods whose sockets were listed.
func (s *State) PodNames() []Name {
	return slices.SortedFunc(maps.Keys(s.Host.PodSockets), func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// RuleLines counts the lines of iptables-save in which a text stands by itself; false while they are not known whole.
func (s *State) RuleLines(text string) (int, bool) {
	lines, ok := s.Host.rules()
	return countWhole(lines, text), ok
}

// PeerIn finds the peer's address in a log line that names it.
func PeerIn(line string) (string, bool) { return peerIn(line) }

// EndpointDevices are the devices of the node's endpoints, by the agent's list.
func (s *State) EndpointDevices() map[int32]bool {
	devices := map[int32]bool{}
	for key := range s.Agent["endpoint"] {
		if _, index, ok := s.Agent.device(key); ok {
			devices[index] = true
		}
	}
	for _, e := range EntriesOf(s, cilium.DecodeEndpoint, cilium.Endpoints) {
		devices[int32(e.Value.IfIndex)] = true
	}
	return devices
}

// PortOf is the port of an address as sockets are written; 0 for none.
func PortOf(address string) uint16 {
	for i := len(address) - 1; i >= 0; i-- {
		if address[i] == ':' {
			n, _ := strconv.ParseUint(address[i+1:], 10, 16)
			return uint16(n)
		}
	}
	return 0
}
