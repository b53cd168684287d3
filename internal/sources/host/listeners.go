package host

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// listeners is the topic of sockets in the node's own network that anyone may send to: TCP and SCTP ones that
// listen, and UDP ones that are not connected.
type listeners struct {
	proc   string
	cookie uint64 // of the node's network, which stays; 0 while it is not known
	last   *eventpb.Listeners
}

func (l *listeners) look(_ context.Context, out *eventpb.HostState) error {
	found, err := l.find()
	if err != nil {
		return err
	}
	if l.cookie == 0 {
		l.cookie = ownCookie()
	}
	now := &eventpb.Listeners{NetnsCookie: l.cookie}
	now.Sockets, _ = facts(found, math.MaxInt)
	if l.last == nil || !proto.Equal(now, l.last) {
		l.last, out.Listeners = now, now
	}
	return nil
}

func (l *listeners) find() ([]socket, error) {
	dir := filepath.Join(l.proc, selfNet(l.proc), "net")
	tcp, err := dumpSockets(1 << tcpListen)
	if err != nil {
		if tcp, err = inState(dir, "tcp", tcpListen, err); err != nil {
			return nil, err
		}
	}
	udp, err := dumpUDP(1 << tcpClose)
	if err != nil { // a kernel without CONFIG_INET_UDP_DIAG
		if udp, err = inState(dir, "udp", tcpClose, err); err != nil {
			return nil, err
		}
	}
	sctp, err := sctpListeners(dir)
	return slices.Concat(tcp, udp, sctp), err
}

// inState reads from /proc what socket diagnosis did not tell.
func inState(dir, protocol string, state uint8, diag error) ([]socket, error) {
	found, err := procSockets(dir, protocol)
	if err != nil {
		return nil, fmt.Errorf("%w; %w", diag, err)
	}
	return slices.DeleteFunc(found, func(s socket) bool { return s.state != state }), nil
}
