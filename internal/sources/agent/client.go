package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// maxBody bounds one answer and one line of a stream. The API has no paging; a node of 250 pods answers 2 MiB.
	maxBody = 64 << 20
	// requestTimeout bounds a poll, and the wait for a stream to begin.
	requestTimeout = 10 * time.Second
)

// errTooLarge is an answer of more than maxBody bytes.
var errTooLarge = fmt.Errorf("answer is larger than %d MiB", maxBody>>20)

// statusError is an answer other than 200.
type statusError struct {
	path string
	code int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("GET %s: %d %s", e.path, e.code, http.StatusText(e.code))
}

// client speaks HTTP over the agent's unix socket.
type client struct {
	socket string
	http   *http.Client
}

// newClient takes the socket as a path or as unix:///path. Nothing is dialled yet.
func newClient(address string) *client {
	socket := socketPath(address)
	return &client{socket: socket, http: &http.Client{Transport: &http.Transport{
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

func socketPath(address string) string {
	if rest, ok := strings.CutPrefix(address, "unix:"); ok {
		if path, ok := strings.CutPrefix(rest, "//"); ok {
			return path
		}
		return rest
	}
	return address
}

func (c *client) close() { c.http.CloseIdleConnections() }

// get returns the whole body of a 200 answer.
func (c *client) get(ctx context.Context, path string, body io.Reader) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no answer within %s", requestTimeout))
	defer cancel()
	resp, err := c.open(ctx, path, body)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, causeOf(ctx, err))
	}
	if len(data) > maxBody {
		return nil, fmt.Errorf("read %s: %w", path, errTooLarge)
	}
	return data, nil
}

// open returns a 200 answer whose body the caller closes. It bounds the wait for the answer's head only.
func (c *client) open(ctx context.Context, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, &statusError{path: path, code: resp.StatusCode}
	}
	return resp, nil
}

// causeOf prefers the sentence that a deadline was set with to "context deadline exceeded".
func causeOf(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}

// isJSONError tells an answer that is no JSON of the expected shape from a broken connection.
func isJSONError(err error) bool {
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &shape) || errors.Is(err, errNotAgent) || errors.Is(err, errNotList)
}
