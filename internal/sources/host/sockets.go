package host

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// socket is a TCP socket as the kernel describes it.
type socket struct {
	v6            bool // of family AF_INET6; its addresses may still be IPv4 ones
	state         uint8
	local, remote netip.AddrPort
}

const (
	tcpTimeWait = 6
	tcpListen   = 10
)

// tcpStates are the kernel's names (include/net/tcp_states.h), as ss and netstat know them.
var tcpStates = [...]string{1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT",
	7: "CLOSE", 8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING", 12: "SYN_RECV"}

func (s socket) fact() *eventpb.Socket {
	f := &eventpb.Socket{Protocol: "tcp", Local: s.local.String(), Remote: s.remote.String(), State: "UNKNOWN"}
	if s.v6 {
		f.Protocol = "tcp6"
	}
	if int(s.state) < len(tcpStates) && tcpStates[s.state] != "" {
		f.State = tcpStates[s.state]
	}
	return f
}

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
	if a.v6 != b.v6 {
		if b.v6 {
			return -1
		}
		return 1
	}
	return cmp.Or(a.local.Compare(b.local), a.remote.Compare(b.remote), cmp.Compare(a.state, b.state))
}

// addrPort reads an address of the kernel's: 4 or 16 bytes in network order. IPv4 within IPv6 is IPv4.
func addrPort(addr []byte, port []byte) netip.AddrPort {
	a, _ := netip.AddrFromSlice(addr)
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
}
