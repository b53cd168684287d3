package facts

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Book knows what addresses and ids stand for, from the events it was given so far. Its size is that of the cluster,
// not of the session. A nil Book knows nothing.
type Book struct {
	frontends map[netip.AddrPort]string // the Service, namespace/name
	nodePorts map[uint16]string
	pods      map[netip.Addr]string // not of pods in the host's network
	backends  map[backendKey]netip.AddrPort
}

type backendKey struct {
	v6 bool
	id uint32
}

// NewBook returns a Book that knows nothing yet.
func NewBook() *Book {
	return &Book{map[netip.AddrPort]string{}, map[uint16]string{}, map[netip.Addr]string{}, map[backendKey]netip.AddrPort{}}
}

// Add learns from an event. What is gone keeps its name until another takes its address: the datapath's entries go
// later than the object.
func (b *Book) Add(e *eventpb.Event) {
	for _, o := range e.GetKube().GetObjects() {
		switch {
		case o.Deleted:
		case o.Service != nil:
			b.addService(o)
		case o.Pod != nil && !o.Pod.HostNetwork && o.Pod.Phase != "Succeeded" && o.Pod.Phase != "Failed":
			b.addPod(o, o.Pod.PodIps) // of one that is over, the address may be another's by now
		case o.CiliumEndpoint != nil: // known before the pod's own status
			b.addPod(o, o.CiliumEndpoint.Addresses)
		}
	}
	for _, d := range e.GetMaps().GetMaps() {
		b.addMap(d)
	}
}

func (b *Book) addService(o *eventpb.KubeObject) {
	name, s := o.Namespace+"/"+o.Name, o.Service
	for _, p := range s.Ports {
		for _, list := range [][]string{s.ClusterIps, s.ExternalIps, s.LoadBalancerIps} {
			for _, ip := range list {
				if a, err := netip.ParseAddr(ip); err == nil {
					b.frontends[netip.AddrPortFrom(a, uint16(p.Port))] = name
				}
			}
		}
		if p.NodePort != 0 {
			b.nodePorts[uint16(p.NodePort)] = name
		}
	}
}

func (b *Book) addPod(o *eventpb.KubeObject, ips []string) {
	for _, ip := range ips {
		if a, err := netip.ParseAddr(ip); err == nil {
			b.pods[a] = o.Namespace + "/" + o.Name
		}
	}
}

func (b *Book) addMap(d *eventpb.MapDelta) {
	layout, ok := cilium.Lookup(d.Map, d.KeySize, d.ValueSize)
	if !ok || layout.Kind != cilium.Backends4 && layout.Kind != cilium.Backends6 {
		return
	}
	v6 := layout.Kind == cilium.Backends6
	for rest, n := d.Upserts, int(d.KeySize+d.ValueSize); len(rest) >= n; rest = rest[n:] {
		if e, err := cilium.DecodeBackend(rest[:d.KeySize], rest[d.KeySize:n]); err == nil {
			b.backends[backendKey{v6, e.ID}] = e.Address
		}
	}
	for rest := d.Deletes; len(rest) >= 4; rest = rest[4:] {
		delete(b.backends, backendKey{v6, binary.LittleEndian.Uint32(rest)})
	}
}

// ServiceOf is the Service that has this frontend, as namespace/name, or "".
func (b *Book) ServiceOf(frontend netip.AddrPort) string {
	if b == nil {
		return ""
	}
	if name := b.frontends[frontend]; name != "" {
		return name
	}
	if b.PodOf(frontend.Addr()) != "" {
		return "" // a pod's own port, though its number is a node port
	}
	return b.nodePorts[frontend.Port()]
}

// PodOf is the pod that has this address, as namespace/name, or "".
func (b *Book) PodOf(a netip.Addr) string {
	if b == nil {
		return ""
	}
	return b.pods[a.Unmap()]
}

// Backend is the address of a backend id.
func (b *Book) Backend(v6 bool, id uint32) (netip.AddrPort, bool) {
	if b == nil {
		return netip.AddrPort{}, false
	}
	a, ok := b.backends[backendKey{v6, id}]
	return a, ok
}

func (b *Book) backend(v6 bool, id uint32) string {
	a, ok := b.Backend(v6, id)
	if !ok {
		return fmt.Sprintf("backend %d", id)
	}
	return fmt.Sprintf("backend %d %s%s", id, a, b.podIn(a.Addr()))
}

func (b *Book) podIn(a netip.Addr) string { return inParens(b.PodOf(a)) }

func (b *Book) nameIn(a netip.AddrPort) string {
	if pod := b.PodOf(a.Addr()); pod != "" {
		return inParens(pod)
	}
	return inParens(b.ServiceOf(a))
}

func inParens(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}
