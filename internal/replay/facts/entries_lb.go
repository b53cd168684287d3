package facts

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// The load balancer's maps.

type service struct{ cilium.Service }

func (s service) key() object {
	return object{{"frontend", s.Frontend.String()}, {"protocol", s.Proto.String()}, {"scope", s.scope()}, {"slot", s.Slot}}
}

func (s service) scope() any {
	switch s.Scope {
	case 0:
		return "external"
	case 1:
		return "internal"
	}
	return s.Scope
}

func (s service) value() object {
	if !s.Head() {
		return object{{"backend_id", s.BackendID}, {"rev_nat", s.RevNAT}, {"flags", flagNames(s.Flags)}}
	}
	o := object{{"count", s.Count}, {"quarantined", s.QCount}, {"rev_nat", s.RevNAT}, {"flags", flagNames(s.Flags)}}
	if s.Flags&cilium.FlagL7LoadBalancer != 0 {
		return append(o, member{"l7_port", s.L7Port})
	}
	return append(o, member{"affinity_timeout", s.AffinityTimeout}, member{"algorithm", s.Algorithm})
}

func flagNames(f cilium.ServiceFlags) []string { return strings.Split(f.String(), ", ") }

func (s service) refs(r *Refs) {
	r.Sockets = append(r.Sockets, s.Frontend)
	if s.RevNAT != 0 {
		r.RevNATs = append(r.RevNATs, s.RevNAT)
	}
	if s.BackendID != 0 {
		r.Backends = append(r.Backends, s.BackendID)
	}
}

func (s service) text(b *Book, whole bool) string {
	text := fmt.Sprintf("%s/%s", s.Frontend, s.Proto)
	if s.Internal {
		text += "/i"
	}
	if name := b.ServiceOf(s.Frontend); name != "" {
		text += " " + name
	}
	switch {
	case !s.Head() && whole:
		return fmt.Sprintf("%s slot %d → %s", text, s.Slot, b.backend(s.Frontend.Addr().Is6(), s.BackendID))
	case !s.Head():
		return fmt.Sprintf("%s slot %d", text, s.Slot)
	case whole:
		return fmt.Sprintf("%s frontend, %d slots, rev-NAT %d (%s)", text, s.Count, s.RevNAT, s.Flags)
	}
	return text + " frontend"
}

type backend struct{ cilium.Backend }

func (e backend) key() object { return object{{"backend_id", e.ID}} }
func (e backend) value() object {
	return object{{"address", e.Address.String()}, {"protocol", e.Proto.String()}, {"state", e.State.String()}, {"cluster_id", e.Cluster}, {"zone", e.Zone}}
}
func (e backend) refs(r *Refs) {
	r.Backends = append(r.Backends, e.ID)
	r.addAddrPort(e.Address)
}
func (e backend) text(b *Book, whole bool) string {
	if !whole {
		return fmt.Sprintf("backend %d", e.ID)
	}
	return fmt.Sprintf("backend %d %s/%s%s %s", e.ID, e.Address, e.Proto, b.podIn(e.Address.Addr()), e.State)
}

type revNAT struct{ cilium.RevNAT }

func (e revNAT) key() object   { return object{{"rev_nat", e.ID}} }
func (e revNAT) value() object { return object{{"frontend", e.Frontend.String()}} }
func (e revNAT) refs(r *Refs) {
	r.RevNATs = append(r.RevNATs, e.ID)
	r.addAddrPort(e.Frontend)
}
func (e revNAT) text(b *Book, whole bool) string {
	if !whole {
		return fmt.Sprintf("rev-NAT %d", e.ID)
	}
	return strings.TrimSpace(fmt.Sprintf("rev-NAT %d = %s %s", e.ID, e.Frontend, b.ServiceOf(e.Frontend)))
}

type sockRevNAT struct{ cilium.SockRevNAT }

func (e sockRevNAT) key() object {
	return object{{"cookie", e.Cookie}, {"backend", e.Backend.String()}}
}
func (e sockRevNAT) value() object {
	return object{{"frontend", e.Frontend.String()}, {"rev_nat", e.RevNAT}}
}
func (e sockRevNAT) refs(r *Refs) {
	r.addAddrPort(e.Backend)
	r.addAddrPort(e.Frontend)
	if e.RevNAT != 0 {
		r.RevNATs = append(r.RevNATs, e.RevNAT)
	}
}
func (e sockRevNAT) text(b *Book, whole bool) string {
	if !whole {
		return fmt.Sprintf("socket %d connected to %s", e.Cookie, e.Backend)
	}
	return strings.TrimSpace(fmt.Sprintf("socket %d asked for %s, connected to %s %s", e.Cookie, e.Frontend, e.Backend, b.ServiceOf(e.Frontend)))
}

type affinity struct{ cilium.Affinity }

func (e affinity) key() object {
	if e.Client.IsValid() {
		return object{{"client", e.Client.String()}, {"rev_nat", e.RevNAT}}
	}
	return object{{"netns_cookie", e.NetNS}, {"rev_nat", e.RevNAT}}
}
func (e affinity) value() object {
	return object{{"backend_id", e.BackendID}, {"last_used", e.LastUsed}}
}
func (e affinity) refs(r *Refs) {
	r.addAddr(e.Client)
	r.RevNATs = append(r.RevNATs, e.RevNAT)
	if e.BackendID != 0 {
		r.Backends = append(r.Backends, e.BackendID)
	}
}
func (e affinity) text(b *Book, whole bool) string {
	client := fmt.Sprintf("netns %d", e.NetNS)
	if e.Client.IsValid() {
		client = e.Client.String()
	}
	text := fmt.Sprintf("client %s of rev-NAT %d", client, e.RevNAT)
	if whole {
		text += " → " + b.backend(e.Client.Is6(), e.BackendID)
	}
	return text
}

type affinityMatch struct{ cilium.AffinityMatch }

func (e affinityMatch) key() object {
	return object{{"backend_id", e.BackendID}, {"rev_nat", e.RevNAT}}
}
func (affinityMatch) value() object { return object{} }
func (e affinityMatch) refs(r *Refs) {
	r.Backends, r.RevNATs = append(r.Backends, e.BackendID), append(r.RevNATs, e.RevNAT)
}
func (e affinityMatch) text(b *Book, _ bool) string {
	return fmt.Sprintf("rev-NAT %d has %s", e.RevNAT, b.backend(false, e.BackendID))
}

type sourceRange struct{ cilium.SourceRange }

func (e sourceRange) key() object {
	return object{{"rev_nat", e.RevNAT}, {"prefix", e.Prefix.String()}}
}
func (sourceRange) value() object { return object{} }
func (e sourceRange) refs(r *Refs) {
	r.RevNATs = append(r.RevNATs, e.RevNAT)
	r.addPrefix(e.Prefix)
}
func (e sourceRange) text(*Book, bool) string {
	return fmt.Sprintf("rev-NAT %d names clients %s", e.RevNAT, e.Prefix)
}

func (r *Refs) addAddr(a netip.Addr) {
	if a.IsValid() {
		r.Addrs = append(r.Addrs, a.Unmap())
	}
}

// addAddrPort passes over what a deleted entry does not tell.
func (r *Refs) addAddrPort(a netip.AddrPort) {
	if a.IsValid() && (a.Port() != 0 || !a.Addr().IsUnspecified()) {
		r.Sockets = append(r.Sockets, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
	}
}

func (r *Refs) addPrefix(p netip.Prefix) {
	if p.IsValid() {
		r.Prefixes = append(r.Prefixes, p)
	}
}

// addSocket takes address:port as text, with a protocol behind it or not, and an address alone.
func (r *Refs) addSocket(s string) {
	if i := strings.IndexByte(s, '/'); i > 0 && !strings.ContainsAny(s[i+1:], "0123456789") {
		s = s[:i]
	}
	if a, err := netip.ParseAddrPort(s); err == nil {
		r.addAddrPort(a)
	} else {
		r.addAddrs([]string{s})
	}
}
