package recorder

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"golang.org/x/net/netutil"
)

// Listen is where the recorder answers HTTP requests; the zero value is nowhere.
type Listen struct {
	Address   string // from ListenAddress
	TokenFile string // "" makes a token, in the session's folder
}

// ListenAddress reads an address to listen on. A port alone is one of loopback: any other address must be written
// out, 0.0.0.0 and [::] too.
func ListenAddress(s string) (string, error) {
	if port, err := strconv.ParseUint(strings.TrimPrefix(s, ":"), 10, 16); err == nil {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)).String(), nil
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return "", fmt.Errorf("%q is neither a port nor ADDRESS:PORT", s)
	}
	return a.String(), nil
}

// limits keep a client from holding what the recorder needs.
type limits struct {
	header, request, answer, idle time.Duration
	connections                   int
}

var defaultLimits = limits{header: 5 * time.Second, request: 10 * time.Second, answer: 30 * time.Second, idle: time.Minute, connections: 64}

const maxRequestHeader = 8 << 10

// server answers GET requests that bring the token, from what the board shows.
type server struct {
	listener net.Listener
	token    [sha256.Size]byte
	board    *board
	journal  *journal.Journal
	metrics  http.Handler
	limits   limits
}

// listen opens the port, so that one that is taken is said before anything is recorded.
func listen(o Options, b *board, j *journal.Journal) (*server, error) {
	token, path, err := "", o.Listen.TokenFile, error(nil)
	if path != "" {
		token, err = readToken(path)
	} else {
		token, path, err = makeToken(o.Session)
	}
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", o.Listen.Address)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = events.Cause(op.Err)
		}
		return nil, &events.Trouble{Thing: "address " + o.Listen.Address, Cause: err, Mend: "name another with --listen"}
	}
	o.Log.Info("listening", "address", l.Addr().String(), "token", path)
	return &server{
		listener: l, token: sha256.Sum256([]byte(token)), board: b, journal: j,
		metrics: metricsHandler(b, j, o.Session), limits: defaultLimits,
	}, nil
}

// run answers until ctx ends.
func (s *server) run(ctx context.Context, log *slog.Logger) error {
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: s.limits.header, ReadTimeout: s.limits.request, WriteTimeout: s.limits.answer,
		IdleTimeout: s.limits.idle, MaxHeaderBytes: maxRequestHeader,
		// What a client did is not to fill the log.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(netutil.LimitListener(s.listener, s.limits.connections)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer on %s: %w", s.listener.Addr(), err)
	}
	return nil
}

// ServeHTTP knows whole paths only: a file is looked up by its name in what is shown, never on a disk.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if !s.allowed(r) {
		h.Set("WWW-Authenticate", "Bearer")
		http.Error(w, "bring the recorder's token: Authorization: Bearer TOKEN", http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path {
	case "/metrics":
		s.metrics.ServeHTTP(w, r)
	case "/healthz":
		s.health(w)
	case "/session":
		s.file(w, "session.json")
	default:
		name, ok := strings.CutPrefix(r.URL.Path, "/files/")
		if !ok {
			http.Error(w, "there are /metrics, /healthz, /session and /files/NAME", http.StatusNotFound)
			return
		}
		s.file(w, name)
	}
}

// allowed compares digests, which takes as long for every token.
func (s *server) allowed(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], s.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

func (s *server) file(w http.ResponseWriter, name string) {
	data, ok := s.board.look().files[name]
	if !ok {
		http.Error(w, "there is no such file now", http.StatusNotFound)
		return
	}
	kind := "application/json"
	if filepath.Ext(name) == ".txt" {
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}

type healthFile struct {
	Healthy bool     `json:"healthy"`
	Reasons []string `json:"reasons"`
}

func (s *server) health(w http.ResponseWriter) {
	f := healthFile{Reasons: s.ailments()}
	f.Healthy = len(f.Reasons) == 0
	w.Header().Set("Content-Type", "application/json")
	if !f.Healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(f)
}

// ailments is what keeps the recorder from recording and showing all that it was told to.
func (s *server) ailments() []string {
	list := []string{}
	if err := s.journal.Trouble(); err != nil {
		list = append(list, "journal cannot be written: "+err.Error())
	}
	now := s.board.look()
	if now.files == nil {
		list = append(list, "nothing is shown yet")
	}
	for _, src := range now.sources {
		if src.status == "up" {
			continue
		}
		why := "source " + src.name + " is " + src.status
		if src.err != "" {
			why += ": " + src.err
		}
		list = append(list, why)
	}
	if now.unwritten != "" {
		list = append(list, "output folder cannot be written: "+now.unwritten)
	}
	return list
}
