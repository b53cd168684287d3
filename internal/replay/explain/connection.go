package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// Connection explains the TCP connection that a pod holds from an address: what the application, its socket, the
// packets and the backend each see.
func Connection(client netip.AddrPort) Subject {
	return func(e *Explanation) error {
		e.Subject = "connection " + client.String()
		c := &connection{Explanation: e, client: client}
		return c.explain()
	}
}

type connection struct {
	*Explanation
	client netip.AddrPort

	pod    *eventpb.KubeObject // that has the client's address
	peer   netip.AddrPort      // in the application's log
	remote netip.AddrPort      // of the socket
	out    []projections.Entry[cilium.CT]
	svc    []projections.Entry[cilium.CT]
	in     []projections.Entry[cilium.CT]
	told   *projections.Entry[cilium.SockRevNAT] // the translation that the socket remembers
}

func (c *connection) explain() error {
	c.pod = c.podAt(c.client.Addr())
	c.application()
	c.socket()
	c.conntrack()
	if !c.remote.IsValid() && len(c.out)+len(c.in)+len(c.svc) == 0 {
		return c.absent()
	}
	c.translation()
	c.whyPeerDiffers()
	c.whoTranslated()
	c.whichService()
	c.backendSide()
	c.older()
	return nil
}

// podAt is the pod with an address; of several (one is gone) the one that is not finished.
func (e *Explanation) podAt(a netip.Addr) *eventpb.KubeObject {
	var found *eventpb.KubeObject
	for _, o := range e.state.Objects(eventpb.Kind_KIND_POD) {
		p := o.GetPod()
		if slices.Contains(p.GetPodIps(), a.String()) && !p.HostNetwork && (found == nil || p.Phase == "Running") {
			found = o
		}
	}
	return found
}

func (c *connection) podName() projections.Name {
	return projections.Name{Namespace: c.pod.GetNamespace(), Name: c.pod.GetName()}
}

// application is what the application printed of its peer.
func (c *connection) application() {
	if c.pod == nil {
		c.unknown("which pod has the address "+c.client.Addr().String(), "kube: the pods of this node")
		return
	}
	l := c.state.Logs[c.podName()]
	if l == nil || l.Peer == "" {
		c.unknown("what getpeername() gives the application", "podlog: a line of the pod's log with the peer's address")
		return
	}
	if peer, err := netip.ParseAddrPort(l.Peer); err == nil {
		c.peer = peer
		c.view("application", "peer in the log of "+c.podName().String(), l.Peer, c.log())
	}
}

func (c *connection) log() fact { return fact{logPeer, c.podName().String(), c.peer.String()} }

// socket is the client's socket inside its pod.
func (c *connection) socket() {
	list, listed := c.state.Sockets(c.podName())
	for _, s := range list {
		local, err := netip.ParseAddrPort(s.Local)
		if err != nil || unmap(local) != c.client || s.State == "LISTEN" {
			continue
		}
		remote, err := netip.ParseAddrPort(s.Remote)
		if err != nil {
			continue
		}
		if s.State == "ESTABLISHED" || !c.remote.IsValid() {
			c.remote = unmap(remote)
		}
		c.view("socket", fmt.Sprintf("%s in %s", s.Protocol, c.podName()), fmt.Sprintf("%s → %s %s", s.Local, s.Remote, s.State), c.sockets())
	}
	if !c.remote.IsValid() {
		source := "host: the sockets inside the pod"
		if listed {
			source = "host: the pod's sockets were listed, and none has this address"
		}
		c.unknown("where the client's socket is connected to", source)
	}
}

func (c *connection) sockets() fact { return fact{sockets, c.podName().String(), ""} }

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// conntrack is what the packets of the connection left in the map. The live entry comes first.
func (c *connection) conntrack() {
	for _, e := range projections.EntriesOf(c.state, cilium.DecodeCT, c.ctKind()) {
		if v := e.Value; v.Source != c.client || v.Related || v.Proto != cilium.TCP {
			continue
		}
		switch e.Value.Direction {
		case cilium.Out:
			c.out = append(c.out, e)
		case cilium.In:
			c.in = append(c.in, e)
		case cilium.Svc:
			c.svc = append(c.svc, e)
		}
	}
	for _, list := range [][]projections.Entry[cilium.CT]{c.out, c.in, c.svc} {
		slices.SortStableFunc(list, liveFirst)
		for _, e := range list {
			says := "flags " + cmp.Or(e.Value.Flags.String(), "none")
			if e.Value.Direction == cilium.Svc {
				says += fmt.Sprintf(", backend %d", e.Value.BackendID)
			}
			c.view("conntrack", e.Value.String(), says, entryOf(e))
		}
	}
	if c.state.MapOf(c.ctKind()) == nil {
		c.unknown("where the packets go", "bpfmap: the conntrack map")
	}
}

func (c *connection) ctKind() cilium.Kind {
	if c.client.Addr().Is6() {
		return cilium.CT6TCP
	}
	return cilium.CT4TCP
}

// liveFirst puts entries that are not closing before those that are, and of them the one that expires last.
func liveFirst(a, b projections.Entry[cilium.CT]) int {
	closing := func(e projections.Entry[cilium.CT]) int {
		if e.Value.Closing() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(closing(a), closing(b)), cmp.Compare(b.Value.Lifetime, a.Value.Lifetime))
}

// backend is where the connection goes: by its socket, else by conntrack.
func (c *connection) backend() netip.AddrPort {
	if !c.remote.IsValid() && len(c.out) > 0 {
		return c.out[0].Value.Destination
	}
	return c.remote
}

// absent says which addresses there are, since this one has no connection.
func (c *connection) absent() error {
	for _, f := range c.frontends(func(s cilium.Service) bool { return s.Frontend == c.client }) {
		return fmt.Errorf("%s is a frontend and not a client: explain its Service, or its port", f.name())
	}
	list, more := Clients(c.state), ""
	if len(list) > 8 {
		list, more = list[:8], " and more"
	}
	if len(list) == 0 {
		return fmt.Errorf("no connection from %s is known at seq:%d, and no live one from a pod", c.client, c.Seq)
	}
	return fmt.Errorf("no connection from %s is known at seq:%d; pods have live ones from %s%s", c.client, c.Seq, texts(list), more)
}

// Clients are the addresses from which pods have live TCP connections, by conntrack.
func Clients(state *projections.State) []netip.AddrPort {
	found := map[netip.AddrPort]bool{}
	for _, e := range projections.EntriesOf(state, cilium.DecodeCT, cilium.CT4TCP, cilium.CT6TCP) {
		if e.Value.Direction == cilium.Out && !e.Value.Closing() && !e.Value.Related {
			found[e.Value.Source] = true
		}
	}
	return sortedAddresses(found)
}

// translation is the entry that a translated socket left for getpeername. It has the socket's cookie and not the
// client's address: it is told by its backend, and by the peer in the log where there is one.
func (c *connection) translation() {
	var found []projections.Entry[cilium.SockRevNAT]
	for _, e := range projections.EntriesOf(c.state, cilium.DecodeSockRevNAT, cilium.SockRevNAT4, cilium.SockRevNAT6) {
		if unmap(e.Value.Backend) == c.backend() && (!c.peer.IsValid() || unmap(e.Value.Frontend) == c.peer) {
			found = append(found, e)
		}
	}
	switch {
	case len(found) == 0:
		c.unknown("whether the socket was translated", "bpfmap: cilium_lb4_reverse_sk has no entry to "+c.backend().String()+" (it forgets the oldest ones)")
	case len(found) > 1:
		c.unknown("which of the sockets to "+c.backend().String()+" is this one", fmt.Sprintf("none: %d entries of %s have that backend, by cookie and not by client", len(found), found[0].Map))
	}
	if len(found) > 0 {
		c.told = &found[0]
		for _, e := range found {
			c.view("translation", fmt.Sprintf("socket cookie %d", e.Value.Cookie), fmt.Sprintf("asked for %s, connected to %s (rev-NAT id %d)", e.Value.Frontend, e.Value.Backend, e.Value.RevNAT), entryOf(e))
		}
	}
}

// backendSide is what the backend's pod sees as its peer.
func (c *connection) backendSide() {
	b := c.backend()
	pod := c.podAt(b.Addr())
	if pod == nil {
		c.unknown("what the backend "+b.String()+" sees as the source", "kube and host: no pod of this node has the address")
		return
	}
	name := projections.Name{Namespace: pod.Namespace, Name: pod.Name}
	list, _ := c.state.Sockets(name)
	for _, s := range list {
		local, err := netip.ParseAddrPort(s.Local)
		remote, err2 := netip.ParseAddrPort(s.Remote)
		if err != nil || err2 != nil || unmap(local) != b || unmap(remote) != c.client {
			continue
		}
		socket := fact{sockets, name.String(), ""}
		c.view("backend", fmt.Sprintf("%s in %s", s.Protocol, name), fmt.Sprintf("%s ← %s %s", s.Local, s.Remote, s.State), socket)
		c.say(fmt.Sprintf("The backend's pod %s sees %s as the source: the client's own address, not translated on the way.", name, c.client), socket, objectOf(eventpb.Kind_KIND_POD, pod))
		return
	}
	c.unknown("what the pod "+name.String()+" sees as the source", "host: no socket of the pod has the client as its peer (it may be seen after the address was translated)")
}
