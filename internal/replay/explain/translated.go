package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// whyPeerDiffers compares the application's peer with its socket's.
func (c *connection) whyPeerDiffers() {
	switch {
	case c.peer.IsValid() && c.peer == c.remote:
		c.say(fmt.Sprintf("The application and its socket both have %s: nothing was translated inside connect().", c.peer), c.log(), c.sockets())
		return
	case c.peer.IsValid() && c.remote.IsValid() && c.told != nil:
		c.say(fmt.Sprintf("The application asked for %s and its socket is connected to %s: socket LB rewrote the address inside connect(), and getpeername() translates it back.", c.peer, c.remote),
			c.log(), c.sockets(), entryOf(*c.told))
	case c.peer.IsValid() && c.remote.IsValid():
		c.say(fmt.Sprintf("The application has the peer %s and its socket is connected to %s: the address was rewritten.", c.peer, c.remote), c.log(), c.sockets())
	case c.told != nil && c.peer.IsValid() && len(c.out) > 0:
		c.say(fmt.Sprintf("The application asked for %s, and conntrack has its packets going to %s. A socket (cookie %d) is remembered that asked for the one and was given the other: socket LB rewrote the address inside connect(), and getpeername() translates it back.",
			c.peer, c.backend(), c.told.Value.Cookie), c.log(), entryOf(c.out[0]), entryOf(*c.told))
	case c.told != nil:
		c.say(fmt.Sprintf("A socket (cookie %d) is remembered that asked for %s and was connected to %s: socket LB rewrote the address inside connect().", c.told.Value.Cookie, c.told.Value.Frontend, c.told.Value.Backend), entryOf(*c.told))
	default:
		return
	}
	c.hooks()
}

// hooks names the programs that rewrite the address in a socket, where they were seen.
func (c *connection) hooks() {
	var found []string
	for _, a := range c.state.Host.Attachments.GetAttachments() {
		if a.Cgroup != "" && (strings.Contains(a.Program, "_connect") || strings.Contains(a.Program, "_getpeername")) {
			found = append(found, a.Program)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	switch coverage, ok := c.state.SocketLBCoverage(); {
	case len(found) > 0:
		c.say("The programs that do it hang on the cgroup: "+strings.Join(found, ", ")+".", theAttachments)
	case ok:
		c.say("The agent's socket LB coverage is "+coverage+".", theStatus)
		c.unknown("which programs hang on the cgroup", "host: it lists no connect or getpeername program")
	default:
		c.unknown("whether socket LB is on in pods", "agent: its status")
	}
}

// whoTranslated says whether the packets were translated on their way.
func (c *connection) whoTranslated() {
	whole := c.wholeMaps(c.ctKind())
	for _, e := range c.svc {
		c.say(fmt.Sprintf("Conntrack has a SVC entry from %s to the frontend %s: the packet path translated it, to backend %d.", e.Value.Source, e.Value.Destination, e.Value.BackendID), entryOf(e))
	}
	if len(c.svc) > 0 || len(c.out) == 0 || len(whole) == 0 {
		return
	}
	live := c.out[0]
	facts := append(whole, entryOf(live), lastRead(whole[0].name))
	if c.peer.IsValid() && c.peer != live.Value.Destination || c.told != nil {
		c.say(fmt.Sprintf("The packets carry %s from the first on: conntrack has the connection as OUT to the backend, and no SVC entry from %s, which the packet path would have made.", live.Value.Destination, c.client), facts...)
	}
	if c.remote.IsValid() && c.remote != live.Value.Destination {
		c.say(fmt.Sprintf("Socket and conntrack disagree: the socket goes to %s and the newest entry to %s. One was read before the other changed.", c.remote, live.Value.Destination), entryOf(live), c.sockets())
	}
}

// lastRead is the fact that a map was read until now, for what is said of all its entries.
func lastRead(name string) fact { return fact{mapRead, name, ""} }

// whichService says whose the frontend is, and whether the backend is still one of its.
func (c *connection) whichService() {
	front := c.peer
	if c.told != nil {
		front = unmap(c.told.Value.Frontend)
	}
	if !front.IsValid() || front == c.backend() {
		return
	}
	list := c.frontends(func(s cilium.Service) bool {
		return s.Frontend == front && (s.Proto == cilium.TCP || s.Proto == cilium.Any)
	})
	if len(list) == 0 {
		if whole := c.wholeMaps(cilium.Services4); len(whole) > 0 && front.Addr().Is4() {
			c.say(fmt.Sprintf("The map has no frontend %s any more: the connection outlives it.", front), append(whole, lastRead(whole[0].name))...)
		}
		return
	}
	f := list[0]
	owner, facts := c.owner(f)
	c.view("map", "frontend "+f.name(), f.says(), f.facts()...)
	for _, s := range f.slots {
		if s.backend != nil && s.backend.Value.Address == c.backend() {
			c.say(fmt.Sprintf("%s is a frontend of %s, and %s is its slot %d.", f.name(), owner, c.backendName(), s.entry.Value.Slot), append(append(facts, entryOf(f.head)), s.facts()...)...)
			return
		}
	}
	c.say(fmt.Sprintf("%s is a frontend of %s, and %s is none of its backends now: a connection stays where it was made.", f.name(), owner, c.backendName()), append(facts, f.facts()...)...)
}

// owner is the Service of a frontend, by the API or the agent, with what says so.
func (e *Explanation) owner(f *frontend) (string, []fact) {
	at := f.head.Value.Frontend
	for _, o := range e.state.Objects(eventpb.Kind_KIND_SERVICE) {
		if slices.Contains(o.GetService().GetClusterIps(), at.Addr().String()) {
			return "Service " + o.Namespace + "/" + o.Name, []fact{objectOf(eventpb.Kind_KIND_SERVICE, o)}
		}
	}
	for _, r := range e.state.AgentFrontends() {
		if a, ok := addressOf(r.Address); ok && a == at {
			return "Service " + r.Service, []fact{{agentRow, "frontend", r.Key}}
		}
	}
	return fmt.Sprintf("a Service that is not known (id %d)", f.head.Value.RevNAT), nil
}

func (c *connection) backendName() string {
	if pod := c.podAt(c.backend().Addr()); pod != nil {
		return fmt.Sprintf("%s (pod %s/%s)", c.backend(), pod.Namespace, pod.Name)
	}
	return c.backend().String()
}

// older tells of entries that earlier connections from the same port left.
func (c *connection) older() {
	for _, e := range c.out {
		if e.Value.Closing() {
			c.say(fmt.Sprintf("An earlier connection from the same port went to %s: its entry is closing and waits to expire.", e.Value.Destination), entryOf(e))
		}
	}
	for i, e := range c.out {
		if i > 0 && !e.Value.Closing() && !c.out[0].Value.Closing() {
			c.say(fmt.Sprintf("The entry to %s is not closing and expires before the one to %s: the connection was made anew from the same port without a FIN that conntrack saw.", e.Value.Destination, c.out[0].Value.Destination), entryOf(e), entryOf(c.out[0]))
		}
	}
}
