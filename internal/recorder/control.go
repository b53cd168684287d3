package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"golang.org/x/sys/unix"
)

// control is how other commands reach a running recorder: HTTP on a unix socket in the session folder, which
// only its owner can open.
type control struct {
	emit events.Emit
	pack func(ctx context.Context, w io.Writer) error
	log  *slog.Logger
}

const (
	controlSocket = "control.sock"
	maxMark       = 4096
)

// serve answers until ctx ends.
func (c *control) serve(ctx context.Context, dir string) error {
	path := filepath.Join(dir, controlSocket)
	// Left by a recorder that was killed; the session's lock says that none runs.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old control socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("open control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mark", c.mark)
	mux.HandleFunc("GET /tape", c.tape)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if srv.Shutdown(bounded) != nil {
			_ = srv.Close()
		}
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (c *control) mark(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(io.LimitReader(r.Body, maxMark+1))
	if err != nil || len(text) == 0 || len(text) > maxMark {
		http.Error(w, fmt.Sprintf("a mark has 1 to %d bytes", maxMark), http.StatusBadRequest)
		return
	}
	if err := c.emit(r.Context(), events.New(&eventpb.Mark{Text: strings.ToValidUTF8(string(text), "\uFFFD")})); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func (c *control) tape(w http.ResponseWriter, r *http.Request) {
	if err := c.pack(r.Context(), w); err != nil {
		c.log.Error("pack for another command", "error", err)
		// Cuts the connection, so that the other side sees a torn tape, not a short one.
		panic(http.ErrAbortHandler)
	}
}

// Mark puts a mark into the session that is being recorded in dir.
func Mark(ctx context.Context, dir, text string) error {
	if text == "" || len(text) > maxMark {
		return fmt.Errorf("mark of %d bytes: want 1 to %d", len(text), maxMark)
	}
	return call(ctx, dir, http.MethodPost, "/mark", strings.NewReader(text), io.Discard)
}

// errNotRunning says that no recorder answers on the session's control socket.
var errNotRunning = errors.New("no recorder is running on this session")

func call(ctx context.Context, dir, method, path string, body io.Reader, out io.Writer) error {
	socket := filepath.Join(dir, controlSocket)
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://recorder"+path, body)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return unreached(dir, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("recorder refused: %s", strings.TrimSpace(string(text)))
	}
	_, err = io.Copy(out, resp.Body)
	return err
}

// unreached says why the control socket was not.
func unreached(dir string, err error) error {
	t := &events.Trouble{Thing: "session " + dir, Cause: errNotRunning, Mend: "start `recorder run`, or name the running one's folder with --session"}
	switch {
	case errors.Is(err, fs.ErrPermission):
		t.Cause, t.Mend = fs.ErrPermission, "run this as the user who runs the recorder"
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED):
		t.Cause, t.Mend = fmt.Errorf("the recorder did not answer: %w", err), "see the recorder's log"
	}
	return t
}
