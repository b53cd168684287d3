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

// listeners is the topic of listening TCP sockets in the node's own network.
type listeners struct {
	proc string
	last *eventpb.Listeners
}

func (l *listeners) look(_ context.Context, out *eventpb.HostState) error {
	found, err := listeningSockets(l.proc)
	if err != nil {
		return err
	}
	now := &eventpb.Listeners{}
	now.Sockets, _ = facts(found, math.MaxInt)
	if l.last == nil || !proto.Equal(now, l.last) {
		l.last, out.Listeners = now, now
	}
	return nil
}

func listeningSockets(proc string) ([]socket, error) {
	found, err := dumpSockets("", 1<<tcpListen)
	if err == nil {
		return found, nil
	}
	found, procErr := procSockets(filepath.Join(proc, selfNet(proc), "net"))
	if procErr != nil {
		return nil, fmt.Errorf("%w; %w", err, procErr)
	}
	return slices.DeleteFunc(found, func(s socket) bool { return s.state != tcpListen }), nil
}
