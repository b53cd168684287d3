package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// getByFamily is SOCK_DIAG_BY_FAMILY, the newer request: of one protocol and one family.
	getByFamily = 20
	// getTCP is TCPDIAG_GETSOCK, the older of two requests. It answers for IPv4 and IPv6 at once, and so walks
	// the kernel's table once; with a usual table (262,144 buckets) a walk takes 2 ms.
	getTCP = 18

	diagRequestSize   = 60 // struct inet_diag_req
	diagRequestV2Size = 56 // struct inet_diag_req_v2
	diagMessageSize   = 72 // struct inet_diag_msg
	anyState          = 1<<13 - 1
)

// diagRequest asks for the TCP sockets in the states of a mask (bit = state).
type diagRequest struct{ states uint32 }

func (diagRequest) Len() int { return diagRequestSize }

func (r diagRequest) Serialize() []byte {
	b := make([]byte, diagRequestSize)
	nl.NativeEndian().PutUint32(b[52:], r.states)
	return b
}

// diagRequestUDP asks for the UDP sockets of a family in the states of a mask.
type diagRequestUDP struct {
	family uint8
	states uint32
}

func (diagRequestUDP) Len() int { return diagRequestV2Size }

func (r diagRequestUDP) Serialize() []byte {
	b := make([]byte, diagRequestV2Size)
	b[0], b[1] = r.family, unix.IPPROTO_UDP
	nl.NativeEndian().PutUint32(b[4:], r.states)
	return b
}

// dumpSockets lists TCP sockets of this process's own network namespace. The table of the whole machine is walked unless
// only listeners are asked for.
func dumpSockets(states uint32) ([]socket, error) {
	s, err := diagSocket("")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return dump(s, getTCP, diagRequest{states}, "tcp")
}

// podSockets reads the TCP sockets of a process's network, and that network's cookie. Where the network
// itself cannot be asked it reads /proc, and its error is a cookieless.
func podSockets(proc string, pid int) (list []socket, cookie uint64, err error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	s, err := diagSocket(filepath.Join(dir, "ns/net"))
	if err == nil {
		defer s.Close()
		cookie = netnsCookie(s)
		if list, err = dump(s, getTCP, diagRequest{anyState}, "tcp"); err == nil {
			return list, cookie, nil
		}
	}
	why := err
	if list, err = procSockets(filepath.Join(dir, "net"), "tcp"); err != nil {
		return nil, 0, err
	}
	return list, 0, &cookieless{why}
}

// cookieless is why a pod's sockets were read from /proc, which tells neither their cookies nor their network's.
type cookieless struct{ why error }

func (c *cookieless) Error() string { return c.why.Error() }
func (c *cookieless) Unwrap() error { return c.why }

// trouble says which right is missing to ask a pod's network.
func (c *cookieless) trouble(pod string) error {
	t := &events.Trouble{Thing: "cookies of the sockets of " + pod, Cause: c.why, Mend: "give the recorder CAP_SYS_ADMIN and CAP_SYS_PTRACE"}
	switch {
	case errors.Is(c.why, fs.ErrPermission):
		t.Cause, t.Mend = errors.New("not permitted to open its network namespace"), "give the recorder CAP_SYS_PTRACE"
	case strings.HasSuffix(c.why.Error(), unix.EPERM.Error()): // netlink hides what kind of error it is
		t.Cause, t.Mend = errors.New("not permitted to enter its network namespace"), "give the recorder CAP_SYS_ADMIN"
	}
	return t
}

// netnsCookie is that of the network namespace a socket is in; 0 where the kernel (before 5.14) does not tell.
func netnsCookie(s *nl.NetlinkSocket) uint64 {
	cookie, err := unix.GetsockoptUint64(s.GetFd(), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return cookie
}

// ownCookie is that of this process's network namespace.
func ownCookie() uint64 {
	s, err := diagSocket("")
	if err != nil {
		return 0
	}
	defer s.Close()
	return netnsCookie(s)
}

// dumpUDP lists UDP sockets of this process's own network namespace.
func dumpUDP(states uint32) (list []socket, err error) {
	s, err := diagSocket("")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		found, err := dump(s, getByFamily, diagRequestUDP{family, states}, "udp")
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

func dump(s *nl.NetlinkSocket, kind int, request nl.NetlinkRequestData, protocol string) ([]socket, error) {
	req := nl.NewNetlinkRequest(kind, unix.NLM_F_DUMP)
	req.AddData(request)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_INET_DIAG: {Socket: s}}
	messages, err := req.Execute(unix.NETLINK_INET_DIAG, uint16(kind))
	if err != nil {
		return nil, fmt.Errorf("list %s sockets: %w", protocol, err)
	}
	list := make([]socket, 0, len(messages))
	for _, m := range messages {
		if s, ok := parseDiag(m, protocol); ok {
			list = append(list, s)
		}
	}
	return list, nil
}

// diagSocket is not kept from one look to the next: it would keep a pod's namespace alive after the pod.
func diagSocket(ns string) (*nl.NetlinkSocket, error) {
	target := netns.None()
	if ns != "" {
		f, err := os.Open(ns)
		if err != nil {
			return nil, fmt.Errorf("open network namespace: %w", err)
		}
		defer f.Close()
		target = netns.NsHandle(f.Fd())
	}
	s, err := nl.GetNetlinkSocketAt(target, netns.None(), unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open socket diagnosis: %w", err)
	}
	return s, nil
}

// parseDiag reads a struct inet_diag_msg. The cookie is told as two words, the lower one first.
func parseDiag(m []byte, protocol string) (socket, bool) {
	if len(m) < diagMessageSize {
		return socket{}, false
	}
	size := 4
	v6 := m[0] == unix.AF_INET6
	if v6 {
		size = 16
	}
	return socket{protocol: protocol, v6: v6, state: m[1],
		local:  addrPort(m[8:8+size], m[4:6]),
		remote: addrPort(m[24:24+size], m[6:8]),
		cookie: uint64(nl.NativeEndian().Uint32(m[44:])) | uint64(nl.NativeEndian().Uint32(m[48:]))<<32,
	}, true
}
