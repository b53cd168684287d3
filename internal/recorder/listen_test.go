package recorder

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/profiles"
)

func TestListenAddress(t *testing.T) {
	for text, want := range map[string]string{
		"9000": "127.0.0.1:9000", ":9000": "127.0.0.1:9000", "0": "127.0.0.1:0",
		"0.0.0.0:9000": "0.0.0.0:9000", "[::]:9000": "[::]:9000", "192.0.2.7:1": "192.0.2.7:1", "[::1]:80": "[::1]:80",
	} {
		if got, err := ListenAddress(text); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "*:9000", "node-1:9000", "70000", ":70000", "127.0.0.1", "::1", "-1"} {
		if got, err := ListenAddress(text); err == nil {
			t.Errorf("%q is taken as %q", text, got)
		}
	}
}

// served is a server over what a live fold shows.
type served struct {
	*server
	token, session, out string
	live                *live
	seq                 uint64
}

// serve runs one over an empty session; change may be nil.
func serve(t *testing.T, change func(*Options, *server)) *served {
	t.Helper()
	o := Options{Session: filepath.Join(t.TempDir(), "session"), Log: slog.New(slog.DiscardHandler)}
	o.Listen.Address = "127.0.0.1:0"
	j, err := journal.Open(o.Session, journal.Options{Sync: time.Minute, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close(context.Background()) })
	out := filepath.Join(t.TempDir(), "out")
	folder, err := projections.OpenFolder(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	state := projections.NewState()
	l := &live{journal: j, state: state, folder: folder, log: o.Log, renderer: projections.NewRenderer(), board: newBoard(), keys: newKeeper(keyframesOf(o.Session, j, nil), state, 0)}
	s, err := listen(o, l.board, j)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&o, s)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx, o.Log) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	token, err := readToken(filepath.Join(o.Session, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return &served{server: s, token: token, session: o.Session, out: out, live: l}
}

// see stores events of a source, folds them, and shows the files.
func (s *served) see(t *testing.T, source string, list ...*eventpb.Event) {
	t.Helper()
	if err := s.journal.Emitter(source)(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	_, last, err := s.journal.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	var batch []journal.Record
	if err := s.journal.Read(t.Context(), s.seq+1, last, func(r journal.Record) error { batch = append(batch, r); return nil }); err != nil {
		t.Fatal(err)
	}
	s.seq = last
	s.live.fold(batch)
	s.live.render()
}

type answer struct {
	status int
	http.Header
	body string
}

// get sends the path as it is: a client would clean it.
func (s *served) get(t *testing.T, method, path, authorization string) answer {
	t.Helper()
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	text := method + " " + path + " HTTP/1.1\r\nHost: recorder\r\nConnection: close\r\n"
	if authorization != "" {
		text += "Authorization: " + authorization + "\r\n"
	}
	if _, err := io.WriteString(c, text+"\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func (s *served) ok(t *testing.T, path string) answer {
	t.Helper()
	a := s.get(t, "GET", path, "Bearer "+s.token)
	if a.status != http.StatusOK {
		t.Fatalf("%s: %d: %s", path, a.status, a.body)
	}
	return a
}

// Nothing is told to who does not bring the token, not even which paths there are.
func TestRequestsNeedTheToken(t *testing.T) {
	s := serve(t, nil)
	for _, path := range []string{"/metrics", "/healthz", "/session", "/files/session.json", "/", "/nothing", "/../token"} {
		for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer " + s.token[1:], "Bearer " + s.token + "0", "Bearer wrong-wrong-wrong-wrong", "Basic " + s.token, s.token} {
			a := s.get(t, "GET", path, authorization)
			if a.status != http.StatusUnauthorized || a.Get("WWW-Authenticate") != "Bearer" || strings.Contains(a.body, s.token) {
				t.Errorf("%s with %q: %d %s", path, authorization, a.status, a.body)
			}
		}
	}
}

func TestFilesAreServed(t *testing.T) {
	text, err := profiles.FS.ReadFile("cca-datapath.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, nil)
	s.see(t, "recorder", events.New(&eventpb.Session{ProfileName: "cca-datapath", ProfileYaml: string(text)}))
	// A browser must not take what an error holds for a page.
	s.see(t, "kube", events.New(&eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN, Error: "<script>alert(1)</script>"}))
	if body := s.ok(t, "/session").body; !strings.Contains(body, "alert(1)") {
		t.Errorf("the error is not in session.json: %s", body)
	}
	for path, kind := range map[string]string{"/session": "application/json", "/files/session.json": "application/json", "/files/services.json": "application/json", "/files/report.txt": "text/plain; charset=utf-8"} {
		a := s.ok(t, path)
		name := filepath.Base(path)
		if name == "session" {
			name = "session.json"
		}
		want, err := os.ReadFile(filepath.Join(s.out, name))
		if err != nil || a.body != string(want) {
			t.Errorf("%s is not the file (%v): %s", path, err, a.body)
		}
		if a.Get("Content-Type") != kind || a.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
	if a := s.get(t, "HEAD", "/session", "Bearer "+s.token); a.status != http.StatusOK || a.body != "" {
		t.Errorf("HEAD: %d %s", a.status, a.body)
	}
}

// What is no file's name is not found, whatever lies beside the files; nothing is HTML, nothing can be changed.
func TestNothingElseIsServed(t *testing.T) {
	s := serve(t, nil)
	s.see(t, "kube", events.New(&eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_UP}))
	if err := os.WriteFile(filepath.Join(s.out, "beside.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/", "/files", "/files/", "/files/beside.json", "/files/svc.json", "/files/../session/token", "/files/..%2f..%2fetc%2fpasswd",
		"/files/%2e%2e/%2e%2e/etc/passwd", "/files//etc/passwd", "/files/../../../../etc/passwd", "/../etc/passwd", "//session", "/session/",
		"/files/session.json/", "/files/./session.json", "/files/session.json%00", "/files/SESSION.JSON", `/files/..\token`, "/debug/pprof/", "/tape", "/mark",
	} {
		a := s.get(t, "GET", path, "Bearer "+s.token)
		if a.status != http.StatusNotFound || !strings.HasPrefix(a.Get("Content-Type"), "text/plain") || a.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v %s", path, a.status, a.Header, a.body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE"} {
		if a := s.get(t, method, "/session", "Bearer "+s.token); a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, a.status)
		}
	}
}

// A client that does not finish its request, or sends more than a request has, does not stay.
func TestSlowAndLargeRequestsAreCut(t *testing.T) {
	s := serve(t, func(_ *Options, s *server) {
		s.limits.header, s.limits.request = 50*time.Millisecond, 50*time.Millisecond
	})
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: recorder\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || strings.Contains(string(b), "200") {
		t.Errorf("a request without an end is kept: %q, %v", b, err)
	}
	large, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	large.SetDeadline(time.Now().Add(20 * time.Second))
	// It ends with a refusal or with the connection, as the kernel has it.
	_, _ = io.WriteString(large, "GET /session HTTP/1.1\r\nHost: recorder\r\nAuthorization: Bearer "+s.token+"\r\nX: "+strings.Repeat("x", 32<<10)+"\r\n\r\n")
	if b, err := io.ReadAll(large); errors.Is(err, os.ErrDeadlineExceeded) || len(b) > 0 && !strings.HasPrefix(string(b), "HTTP/1.1 431 ") {
		t.Errorf("a header of 32 KiB: %q, %v", b, err)
	}
}

// No more connections than the limit are served at once, and the next one is when one ends.
func TestConnectionsAreBounded(t *testing.T) {
	s := serve(t, func(_ *Options, s *server) { s.limits.connections = 1 })
	hold, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() { done <- s.get(t, "GET", "/healthz", "").status }()
	select {
	case status := <-done:
		t.Errorf("a second connection is served: %d", status)
	case <-time.After(50 * time.Millisecond):
	}
	hold.Close()
	if status := <-done; status != http.StatusUnauthorized {
		t.Errorf("after the first ended: %d", status)
	}
}

// The recorder is well when each source sees what it is to see, and says why it is not.
func TestHealth(t *testing.T) {
	s := serve(t, nil)
	status := func(state eventpb.SourceState, err string) *eventpb.Event {
		return events.New(&eventpb.SourceStatus{State: state, Error: err})
	}
	health := func() (int, healthFile) {
		a := s.get(t, "GET", "/healthz", "Bearer "+s.token)
		var f healthFile
		if err := json.Unmarshal([]byte(a.body), &f); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		return a.status, f
	}
	expect := func(want int, reason string) {
		t.Helper()
		got, f := health()
		if got != want || f.Healthy != (want == http.StatusOK) || !strings.Contains(strings.Join(f.Reasons, "\n"), reason) {
			t.Errorf("%d %v, want %d %q", got, f, want, reason)
		}
	}
	expect(http.StatusServiceUnavailable, "nothing is shown yet")
	s.see(t, "kube", status(eventpb.SourceState_SOURCE_STATE_STARTING, ""))
	expect(http.StatusServiceUnavailable, "source kube is starting")
	s.see(t, "kube", status(eventpb.SourceState_SOURCE_STATE_UP, ""))
	expect(http.StatusOK, "")
	s.see(t, "hubble", status(eventpb.SourceState_SOURCE_STATE_DOWN, "no such socket; enable Hubble"))
	expect(http.StatusServiceUnavailable, "source hubble is down: no such socket; enable Hubble")
	s.see(t, "hubble", status(eventpb.SourceState_SOURCE_STATE_UP, ""))
	s.live.failing = "disk full"
	s.live.board.show(nil, s.live.state, s.live.failing)
	expect(http.StatusServiceUnavailable, "output folder cannot be written: disk full")
}

// Metrics pass Prometheus' own linter, count what was recorded, and have no name of the cluster's in a label.
func TestMetrics(t *testing.T) {
	s := serve(t, nil)
	s.see(t, "kube", events.New(&eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_UP}))
	s.see(t, "hubble", events.New(&eventpb.SourceStatus{State: eventpb.SourceState_SOURCE_STATE_DOWN, Error: "gone"}),
		events.New(&eventpb.Gap{FromNs: 1e18, ToNs: 1e18 + 2_500_000_000, Reason: eventpb.GapReason_GAP_REASON_SOURCE_DOWN}),
		events.New(&eventpb.Gap{FromNs: 1e18, ToNs: 1e18, Count: 41, Reason: eventpb.GapReason_GAP_REASON_LOST}),
		events.New(&eventpb.Flows{Flows: []*eventpb.Flow{{TimeNs: 1}}}))
	s.see(t, "bpfmap", events.New(&eventpb.MapDeltas{Maps: []*eventpb.MapDelta{policyMap("cilium_policy_v2_00012", 3), policyMap("cilium_policy_v2_01234", 4), {Map: "cilium_lb4_services_v2", KeySize: 1, ValueSize: 1, Unsupported: true}}}))
	s.see(t, "a-source-of-a-foreign-tape", events.New(&eventpb.Mark{Text: "x"}))
	text := s.ok(t, "/metrics").body
	for _, want := range []string{
		`tapedeck_events_total{kind="flows",source="hubble"} 1`,
		`tapedeck_events_total{kind="gap",source="hubble"} 2`,
		`tapedeck_events_total{kind="mark",source="other"} 1`,
		`tapedeck_lost_events_total{source="hubble"} 41`,
		`tapedeck_source_gap_seconds_total{source="hubble"} 2.5`,
		`tapedeck_source_up{source="kube"} 1`,
		`tapedeck_source_up{source="hubble"} 0`,
		`tapedeck_map_entries{map="cilium_policy_v2"} 7`,
		`tapedeck_map_max_entries{map="cilium_policy_v2"} 32768`,
		`tapedeck_projection_lag_events 0`,
		`tapedeck_journal_writable 1`,
		`tapedeck_build_info{go_version=`,
		"process_resident_memory_bytes ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, grepLines(text, "tapedeck_map"))
		}
	}
	if strings.Contains(text, "cilium_lb4_services_v2") {
		t.Error("a map that cannot be read is said to have entries")
	}
	if strings.Contains(text, "foreign") {
		t.Error("a foreign name is a label")
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	size := folderSize(s.session)
	if size < 1000 {
		t.Errorf("the session has %d bytes", size)
	}
}

func policyMap(name string, entries int) *eventpb.MapDelta {
	d := &eventpb.MapDelta{Map: name, Type: "LPMTrie", MaxEntries: 16384, KeySize: 12, ValueSize: 12, Complete: true}
	for i := range entries {
		d.Upserts = append(d.Upserts, append(make([]byte, 11), byte(i))...)
		d.Upserts = append(d.Upserts, make([]byte, 12)...)
	}
	return d
}

// A token that could be guessed, or is none, is refused before a port is open.
func TestTokenFiles(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"good": {"0123456789abcdef\n", ""}, "short": {"0123\n", "holds 4 bytes"}, "empty": {"", "holds 0 bytes"},
		"two lines": {"0123456789abcdef\n0123456789abcdef\n", "one line"}, "large": {strings.Repeat("x", 5000), "holds"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readToken(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := readToken(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "--listen-token-file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func grepLines(text, prefix string) (found string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			found += line
		}
	}
	return found
}
