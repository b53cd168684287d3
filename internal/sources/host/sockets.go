package host

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// socket is one as the kernel describes it.
type socket struct {
	protocol      string // tcp, udp or sctp
	v6            bool   // of family AF_INET6; its addresses may still be IPv4 ones
	state         uint8
	local, remote netip.AddrPort
	cookie        uint64 // 0 where the way that it was read does not tell
}

const (
	tcpTimeWait = 6
	tcpClose    = 7 // of UDP: not connected
	tcpListen   = 10
)

// tcpStates are the kernel's names (include/net/tcp_states.h), as ss and netstat know them.
var tcpStates = [...]string{1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT",
	7: "CLOSE", 8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING", 12: "SYN_RECV"}

func (s socket) fact() *eventpb.Socket {
	f := &eventpb.Socket{Protocol: s.protocol, Local: s.local.String(), State: "UNKNOWN", Cookie: s.cookie}
	if s.remote.IsValid() {
		f.Remote = s.remote.String()
	}
	if s.v6 {
		f.Protocol += "6"
	}
	switch {
	case s.protocol == "udp" && s.state == tcpClose:
		f.State = "UNCONN"
	case int(s.state) < len(tcpStates) && tcpStates[s.state] != "":
		f.State = tcpStates[s.state]
	}
	return f
}

var protocolOrder = map[string]int{"tcp": 0, "udp": 1, "sctp": 2}

// facts sorts sockets and keeps at most limit of them, those in TIME_WAIT least.
func facts(all []socket, limit int) (kept []*eventpb.Socket, omitted int) {
	slices.SortFunc(all, compareSockets)
	omitted = max(0, len(all)-limit)
	waiting := omitted
	for _, s := range all {
		if waiting > 0 && s.state == tcpTimeWait {
			waiting--
			continue
		}
		if len(kept) < limit {
			kept = append(kept, s.fact())
		}
	}
	return kept, omitted
}

func compareSockets(a, b socket) int {
	if c := cmp.Compare(protocolOrder[a.protocol], protocolOrder[b.protocol]); c != 0 {
		return c
	}
	if a.v6 != b.v6 {
		if b.v6 {
			return -1
		}
		return 1
	}
	return cmp.Or(a.local.Compare(b.local), a.remote.Compare(b.remote), cmp.Compare(a.state, b.state),
		cmp.Compare(a.cookie, b.cookie))
}

// addrPort reads an address of the kernel's: 4 or 16 bytes in network order. IPv4 within IPv6 is IPv4.
func addrPort(addr []byte, port []byte) netip.AddrPort {
	a, _ := netip.AddrFromSlice(addr)
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
}
