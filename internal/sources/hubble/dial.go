package hubble

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	observerpb "github.com/cilium/cilium/api/v1/observer"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	dialTimeout = 5 * time.Second
	// streamWindow is how many bytes of flows may be under way, some 2,000 flows.
	streamWindow = 1 << 20
)

// errEnded is a stream that the observer ended without an error: it stops, or its ring was empty.
var errEnded = errors.New("the observer ended the stream")

// peer is an observer's address: a path or unix:///path of a socket, or host:port.
type peer struct {
	network string // unix or tcp
	address string
	tls     *tls.Config
}

func parsePeer(address string, config *tls.Config) peer {
	if rest, ok := strings.CutPrefix(address, "unix:"); ok {
		if path, ok := strings.CutPrefix(rest, "//"); ok {
			rest = path
		}
		return peer{network: "unix", address: rest}
	}
	if strings.HasPrefix(address, "/") {
		return peer{network: "unix", address: address}
	}
	return peer{network: "tcp", address: address, tls: config}
}

// dial connects, and asks for the status to be sure that an observer answers.
func (p peer) dial(ctx context.Context) (*grpc.ClientConn, *observerpb.ServerStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// A bare connection first: its error has the errno, which gRPC's has only as text.
	bare, err := (&net.Dialer{}).DialContext(ctx, p.network, p.address)
	if err != nil {
		return nil, nil, err
	}
	bare.Close()
	creds := insecure.NewCredentials()
	if p.tls != nil {
		creds = credentials.NewTLS(p.tls)
	}
	conn, err := grpc.NewClient("passthrough:///"+p.address, grpc.WithTransportCredentials(creds), grpc.WithNoProxy(),
		// A fixed window: gRPC would else ping after every flow to find one, which wakes both sides once more.
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(2*streamWindow),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, p.network, p.address)
		}))
	if err != nil {
		return nil, nil, fmt.Errorf("make client: %w", err)
	}
	about, err := observerpb.NewObserverClient(conn).ServerStatus(ctx, &observerpb.ServerStatusRequest{})
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, about, nil
}

// trouble makes a failure one sentence: the address, the cause, the mend.
func (p peer) trouble(err error) error {
	t := &events.Trouble{Thing: "hubble observer at " + p.address, Cause: plain(err), Mend: "see the agent's log; it is tried again by itself"}
	switch code := status.Code(err); {
	case errors.Is(err, fs.ErrNotExist):
		t.Cause = errors.New("there is no such socket")
		t.Mend = "turn Hubble on (hubble.enabled=true), wait for the agent, or give the address with --hubble"
	case errors.Is(err, fs.ErrPermission):
		t.Cause = errors.New("permission denied")
		t.Mend = "run as root or as a member of the socket's group, or give the recorder CAP_DAC_OVERRIDE"
	case errors.Is(err, syscall.ECONNREFUSED):
		t.Cause = errors.New("nothing listens there")
		t.Mend = "wait for the agent to come back, or turn Hubble on (hubble.enabled=true)"
	case errors.Is(err, errEnded), errors.Is(err, io.EOF):
		t.Cause = errEnded
		t.Mend = "it is followed again by itself; if this repeats, see why the agent restarts"
	case code == codes.Unimplemented:
		t.Mend = "give the address of an observer with --hubble; the default is " + DefaultAddress
	case code == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded):
		t.Cause = fmt.Errorf("no answer within %s", dialTimeout)
		t.Mend = "see whether the address is an observer's and whether it wants TLS"
	case code == codes.Unavailable && p.network == "tcp": // the bare connection was taken, so it is what was spoken
		t.Mend = "use TLS where the observer does and none where it does not, or the node's own socket " + DefaultAddress
	}
	return t
}

// plain is a gRPC error's message without its code's name.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		return errors.New(s.Message())
	}
	return err
}
