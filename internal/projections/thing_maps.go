package projections

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

func backendStateName(n uint8) string { return cilium.BackendState(n).String() }

func (s *State) mapThings(add adder) {
	for name, m := range s.Maps {
		switch {
		case !m.Readable:
			add("map", name, Field{"layout", fmt.Sprintf("not known: keys of %d bytes, values of %d", m.KeySize, m.ValueSize)})
		case m.Kind == cilium.Policy:
			add("policy", name, Field{"entries", strconv.Itoa(len(m.Entries))})
		default:
			for k, v := range m.Entries {
				if kind, name, fields := s.entryThing(m.Kind, []byte(k), []byte(v.Bytes)); kind != "" {
					add(kind, name, fields...)
				}
			}
		}
	}
}

// entryThing puts one map entry in words; an empty kind for one that cannot be decoded.
func (s *State) entryThing(kind cilium.Kind, k, v []byte) (string, string, []Field) {
	switch kind {
	case cilium.Services4, cilium.Services6:
		if e, err := cilium.DecodeService(k, v); err == nil {
			return "slot", e.String(), s.slotFields(e)
		}
	case cilium.Backends4, cilium.Backends6:
		if b, err := cilium.DecodeBackend(k, v); err == nil {
			return "backend", backendName(kind, b), []Field{{"address", fmt.Sprintf("%s/%s", b.Address, b.Proto)}, {"state", b.State.String()}}
		}
	case cilium.RevNAT4, cilium.RevNAT6:
		if r, err := cilium.DecodeRevNAT(k, v); err == nil {
			return "rev-nat", fmt.Sprintf("%s%d", family(kind == cilium.RevNAT6), r.ID), []Field{{"frontend", r.Frontend.String()}}
		}
	case cilium.SockRevNAT4, cilium.SockRevNAT6:
		if t, err := cilium.DecodeSockRevNAT(k, v); err == nil {
			return "translation", fmt.Sprintf("socket %d to %s", t.Cookie, t.Backend), []Field{{"frontend", t.Frontend.String()}, {"rev_nat_id", strconv.Itoa(int(t.RevNAT))}}
		}
	case cilium.CT4TCP, cilium.CT4Any, cilium.CT6TCP, cilium.CT6Any:
		if c, err := cilium.DecodeCT(k, v); err == nil {
			return "connection", c.String(), s.connectionFields(c)
		}
	case cilium.Endpoints:
		if e, err := cilium.DecodeEndpoint(k, v); err == nil {
			return "local endpoint", e.Address.String(), endpointFields(e)
		}
	}
	return otherThing(kind, k, v)
}

func otherThing(kind cilium.Kind, k, v []byte) (string, string, []Field) {
	switch kind {
	case cilium.Affinity4, cilium.Affinity6:
		if a, err := cilium.DecodeAffinity(k, v); err == nil {
			client := "netns " + strconv.FormatUint(a.NetNS, 10)
			if a.Client.IsValid() {
				client = a.Client.String()
			}
			return "affinity", fmt.Sprintf("%s to rev-NAT id %s%d", client, family(kind == cilium.Affinity6), a.RevNAT), []Field{{"backend_id", strconv.Itoa(int(a.BackendID))}}
		}
	case cilium.SourceRange4, cilium.SourceRange6:
		if r, err := cilium.DecodeSourceRange(k, v); err == nil {
			return "source range", fmt.Sprintf("%s to rev-NAT id %d", prefixText(r.Prefix), r.RevNAT), nil
		}
	case cilium.Neighbors4, cilium.Neighbors6:
		if n, err := cilium.DecodeNeighbor(k, v); err == nil {
			return "neighbour", n.Address.String(), []Field{{"mac", n.MAC.String()}}
		}
	case cilium.IPCache:
		if e, err := cilium.DecodeIPCache(k, v); err == nil {
			return "ipcache", prefixText(e.Prefix), []Field{{"identity", strconv.Itoa(int(e.Identity))}, {"tunnel", addrText(e.Tunnel)}}
		}
	}
	return "", "", nil
}

func (s *State) slotFields(e cilium.Service) []Field {
	if e.Head() {
		return []Field{{"backends", strconv.Itoa(int(e.Count))}, {"quarantined", known(strconv.Itoa(int(e.QCount)), "0")}, {"rev_nat_id", strconv.Itoa(int(e.RevNAT))},
			{"flags", e.Flags.String()}, {"affinity_seconds", known(strconv.Itoa(int(e.AffinityTimeout)), "0")}}
	}
	return []Field{{"backend", s.backendText(e.BackendID, e.Frontend.Addr().Is6())}, {"backend_id", strconv.Itoa(int(e.BackendID))}}
}

// backendText is a backend's address, with its state where that is not active.
func (s *State) backendText(id uint32, v6 bool) string {
	b, ok := s.LB.backends[backendKey{v6, id}]
	switch {
	case !ok:
		return "not in the map"
	case b.State != cilium.BackendActive:
		return fmt.Sprintf("%s (%s)", b.Address, b.State)
	}
	return b.Address.String()
}

func (s *State) connectionFields(c cilium.CT) []Field {
	fields := []Field{{"flags", c.Flags.String()}, {"rev_nat_id", known(strconv.Itoa(int(c.RevNAT)), "0")}}
	if c.Direction == cilium.Svc {
		fields = append(fields, Field{"backend", s.backendText(c.BackendID, c.Source.Addr().Is6())}, Field{"backend_id", strconv.Itoa(int(c.BackendID))})
	}
	return append(fields, Field{"source_identity", known(strconv.Itoa(int(c.SourceIdentity)), "0")})
}

func endpointFields(e cilium.Endpoint) []Field {
	if e.Host() {
		return []Field{{"host", "true"}}
	}
	return []Field{{"id", strconv.Itoa(int(e.ID))}, {"ifindex", strconv.Itoa(int(e.IfIndex))}, {"identity", known(strconv.Itoa(int(e.Identity)), "0")}, {"mac", e.MAC.String()}}
}

func backendName(kind cilium.Kind, b cilium.Backend) string {
	return fmt.Sprintf("%s%d", family(kind == cilium.Backends6), b.ID)
}

// family tells the ids of the IPv6 maps from those of the IPv4 ones.
func family(v6 bool) string {
	if v6 {
		return "v6:"
	}
	return ""
}

func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return "unknown prefix"
	}
	return p.String()
}

func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
