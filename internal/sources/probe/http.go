package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

const (
	httpTimeout = 5 * time.Second
	// maxBody bounds what is read of an answer.
	maxBody = 1 << 20
)

// curl's exit codes, which both kinds of requests are told in.
const (
	exitConnect = 7 // refused, or no route
	exitTimeout = 28
	exitReceive = 56 // connected, and then no whole answer
)

// httpRequest asks from the node, over a connection of its own, and follows nothing.
func httpRequest(ctx context.Context, s subject) (*eventpb.ProbeResult, error) {
	return httpGet(ctx, s, httpTimeout)
}

func httpGet(ctx context.Context, s subject, limit time.Duration) (*eventpb.ProbeResult, error) {
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport, Timeout: limit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "tapedeck")
	out := &eventpb.ProbeResult{Kind: "http", Target: s.target}
	started := time.Now()
	resp, err := client.Do(req)
	if err == nil {
		out.HttpCode = int32(resp.StatusCode)
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
		resp.Body.Close()
	}
	out.Seconds = time.Since(started).Seconds()
	if err != nil {
		out.ExitCode, out.Error = exitCode(err), err.Error()
	}
	return out, nil
}

func exitCode(err error) int32 {
	var timeout interface{ Timeout() bool }
	var op *net.OpError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return exitTimeout
	case errors.As(err, &op) && op.Op == "dial":
		return exitConnect
	}
	return exitReceive
}

// answered: a port that gives no answer may be a moment from being served.
func answered(r *eventpb.ProbeResult) bool { return r.HttpCode != 0 }

// answeredOrRefused: a Service without backends is to be refused; what times out may not be programmed yet.
func answeredOrRefused(r *eventpb.ProbeResult) bool {
	return r.HttpCode != 0 || r.ExitCode == exitConnect
}
