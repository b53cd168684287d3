package projections

import (
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Host is the node's own state, each topic as it was last seen whole.
type Host struct {
	ruleSets    map[string]*ruleSet // by command
	Links       *eventpb.Links
	Attachments *eventpb.Attachments
	Listeners   *eventpb.Listeners
	listeners   map[uint16][]*eventpb.Socket // the same by port
	TCFilters   *eventpb.TCFilters
	Neighbours  *eventpb.Neighbours
	PodSockets  map[Name]*podSockets
}

type podSockets struct {
	uid     string
	netns   uint64 // the cookie of its network namespace
	sockets []*eventpb.Socket
	epoch   uint64
}

func newHost() Host {
	return Host{ruleSets: map[string]*ruleSet{}, PodSockets: map[Name]*podSockets{}}
}

func (s *State) applyHost(epoch uint64, b *eventpb.HostState) {
	s.Host.apply(epoch, b)
	if len(b.PodSockets) > 0 {
		s.touch(topicSockets)
	}
	if len(b.RuleSets) > 0 || b.Links != nil || b.Attachments != nil || b.Listeners != nil || b.TcFilters != nil || b.Neighbours != nil {
		s.touch(topicHost)
	}
}

func (h *Host) apply(epoch uint64, b *eventpb.HostState) {
	for _, r := range b.RuleSets {
		h.ruleSets[r.Command] = readRuleSet(r)
	}
	if b.Links != nil {
		h.Links = b.Links
	}
	if b.Attachments != nil {
		h.Attachments = b.Attachments
	}
	if b.Listeners != nil {
		h.Listeners = b.Listeners
		h.listeners = map[uint16][]*eventpb.Socket{}
		for _, l := range b.Listeners.Sockets {
			h.listeners[PortOf(l.Local)] = append(h.listeners[PortOf(l.Local)], l)
		}
	}
	if b.TcFilters != nil {
		h.TCFilters = b.TcFilters
	}
	if b.Neighbours != nil {
		h.Neighbours = b.Neighbours
	}
	for _, p := range b.PodSockets {
		key := Name{p.Namespace, p.Pod}
		switch have := h.PodSockets[key]; {
		case !p.Gone:
			h.PodSockets[key] = &podSockets{p.PodUid, p.NetnsCookie, p.Sockets, epoch}
		case have != nil && have.uid == p.PodUid:
			// A pod of the same name may have come already.
			delete(h.PodSockets, key)
		}
	}
}

// rules returns the lines of iptables-save, false while they are not known whole.
func (h *Host) rules() ([]string, bool) {
	r := h.ruleSets["iptables-save"]
	if r == nil || r.Unreadable != "" {
		return nil, false
	}
	return r.Lines, true
}

func countLines(lines []string, text string) int {
	n := 0
	for _, l := range lines {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// countWhole counts the lines in which an address or a port stands by itself: 10.43.0.1 is not in 10.43.0.10, nor
// 80 in 8080 or in 10.80.0.1.
func countWhole(lines []string, text string) int {
	n := 0
	for _, l := range lines {
		if hasWhole(l, text) {
			n++
		}
	}
	return n
}

func hasWhole(line, text string) bool {
	for from := 0; ; {
		i := strings.Index(line[from:], text)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(text)
		if (i == 0 || !inAddress(line[i-1])) && !goesOn(line[end:]) {
			return true
		}
		from = i + 1
	}
}

// inAddress says that the character could belong to the address or number beside it.
func inAddress(c byte) bool {
	return c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// goesOn says that an address or number does not end before rest; a full stop after it does end it.
func goesOn(rest string) bool {
	if rest == "" {
		return false
	}
	return inAddress(rest[0]) && (rest[0] != '.' || len(rest) > 1 && inAddress(rest[1]))
}

// program returns the first program on the device's way in from the pod: tcx before classic tc before netkit.
func (h *Host) program(ifindex int32) (*eventpb.Attachment, bool) {
	for _, hook := range []string{"tcx/ingress", "tc/ingress", "netkit/peer", "netkit/primary"} {
		for _, a := range h.Attachments.GetAttachments() {
			if a.Ifindex == ifindex && a.Attach == hook {
				return a, true
			}
		}
	}
	return nil, false
}

// ingressFilterLines counts the lines of `tc filter show dev DEVICE ingress`; false before filters were listed.
func (h *Host) ingressFilterLines(ifindex int32) (int, bool) {
	n := 0
	for _, f := range h.TCFilters.GetFilters() {
		if f.Ifindex == ifindex && f.Direction == "ingress" {
			n += len(f.Lines)
		}
	}
	return n, h.TCFilters != nil
}

// listening counts the node's listening TCP sockets on a port; false before they were listed.
func (h *Host) listening(port string) (int, bool) {
	n := 0
	for _, s := range h.Listeners.GetSockets() {
		if strings.HasPrefix(s.Protocol, "tcp") && strings.HasSuffix(s.Local, ":"+port) {
			n++
		}
	}
	return n, h.Listeners != nil
}

// peerOf returns the remote address of the pod's established socket on a local port.
func (h *Host) peerOf(pod *eventpb.KubeObject, port string) (string, bool) {
	p := h.PodSockets[Name{pod.Namespace, pod.Name}]
	if p == nil || p.uid != pod.Uid {
		return "", false
	}
	for _, s := range p.sockets {
		if s.State == "ESTABLISHED" && strings.HasSuffix(s.Local, ":"+port) {
			return s.Remote, true
		}
	}
	return "", false
}
