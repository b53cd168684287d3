package facts

import (
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// Connections, endpoints and addresses.

type connection struct{ cilium.CT }

func (e connection) key() object {
	o := object{{"protocol", e.Proto.String()}, {"direction", e.Direction.String()}, {"source", e.Source.String()}, {"destination", e.Destination.String()}}
	if e.Related {
		o = append(o, member{"related", true})
	}
	return o
}

func (e connection) value() object {
	o := object{
		{"packets", e.Packets}, {"bytes", e.Bytes}, {"lifetime", e.Lifetime}, {"flags", e.Flags.String()}, {"closing", e.Closing()},
		{"rev_nat", e.RevNAT}, {"nat_port", e.NATPort}, {"tx_flags", e.TxFlags}, {"rx_flags", e.RxFlags},
		{"source_identity", e.SourceIdentity}, {"last_tx", e.LastTx}, {"last_rx", e.LastRx},
	}
	if e.Direction == cilium.Svc {
		o = append(o, member{"backend_id", e.BackendID})
	}
	return o
}

func (e connection) refs(r *Refs) {
	r.addAddrPort(e.Source)
	r.addAddrPort(e.Destination)
	if e.RevNAT != 0 {
		r.RevNATs = append(r.RevNATs, e.RevNAT)
	}
	if e.BackendID != 0 {
		r.Backends = append(r.Backends, e.BackendID)
	}
}

func (e connection) text(b *Book, whole bool) string {
	text := fmt.Sprintf("%s %s %s%s -> %s%s", e.Proto, e.Direction, e.Source, b.podIn(e.Source.Addr()), e.Destination, b.nameIn(e.Destination))
	if !whole {
		return text
	}
	if e.Direction == cilium.Svc && e.BackendID != 0 {
		text += " → " + b.backend(e.Destination.Addr().Is6(), e.BackendID)
	}
	if e.RevNAT != 0 {
		text += fmt.Sprintf(" rev-NAT %d", e.RevNAT)
	}
	if flags := e.Flags.String(); flags != "" {
		text += " [" + flags + "]"
	}
	return text
}

type endpoint struct{ cilium.Endpoint }

func (e endpoint) key() object { return object{{"address", e.Address.String()}} }
func (e endpoint) value() object {
	return object{
		{"endpoint_id", e.ID}, {"ifindex", e.IfIndex}, {"parent_ifindex", e.ParentIfIndex}, {"identity", e.Identity},
		{"mac", e.MAC.String()}, {"node_mac", e.NodeMAC.String()}, {"host", e.Host()}, {"flags", e.Flags},
	}
}
func (e endpoint) refs(r *Refs) { r.addAddr(e.Address) }
func (e endpoint) text(b *Book, whole bool) string {
	text := e.Address.String() + b.podIn(e.Address)
	switch {
	case whole && e.Host():
		return text + " is the host's"
	case whole:
		return fmt.Sprintf("%s endpoint %d ifindex %d identity %d", text, e.ID, e.IfIndex, e.Identity)
	}
	return text
}

type neighbor struct{ cilium.Neighbor }

func (e neighbor) key() object   { return object{{"address", e.Address.String()}} }
func (e neighbor) value() object { return object{{"mac", e.MAC.String()}} }
func (e neighbor) refs(r *Refs)  { r.addAddr(e.Address) }
func (e neighbor) text(_ *Book, whole bool) string {
	if !whole {
		return e.Address.String()
	}
	return fmt.Sprintf("%s at %s", e.Address, e.MAC)
}

type ipcache struct{ cilium.IPCacheEntry }

func (e ipcache) key() object {
	return object{{"prefix", e.Prefix.String()}, {"cluster_id", e.Cluster}}
}
func (e ipcache) value() object {
	o := object{{"identity", e.Identity}}
	if e.Tunnel.IsValid() {
		o = append(o, member{"tunnel", e.Tunnel.String()})
	}
	return append(o, member{"key", e.Key}, member{"flags", e.Flags})
}
func (e ipcache) refs(r *Refs) {
	r.addPrefix(e.Prefix)
	r.addAddr(e.Tunnel)
}
func (e ipcache) text(b *Book, whole bool) string {
	text := e.Prefix.String()
	if e.Prefix.IsSingleIP() {
		text += b.podIn(e.Prefix.Addr())
	}
	if whole {
		text += fmt.Sprintf(" identity %d", e.Identity)
	}
	return text
}
