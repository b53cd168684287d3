package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// fakeAgent answers as an agent does, on a unix socket, from what a real one answered.
type fakeAgent struct {
	t      *testing.T
	socket string

	mu      sync.Mutex
	answers map[string]string
	rows    map[string][]string // table → lines of a query; nil: an agent without streams
	streams map[string][]chan string
	server  *httptest.Server
}

// newFakeAgent answers with testdata's moment: web with four backends, a NodePort, a Service without backends.
func newFakeAgent(t *testing.T) *fakeAgent {
	t.Helper()
	f := &fakeAgent{t: t, socket: filepath.Join(t.TempDir(), "cilium.sock"), streams: map[string][]chan string{}}
	f.answers = map[string]string{
		"/v1/healthz":  fixture(t, "status.json"),
		"/v1/endpoint": fixture(t, "endpoints.json"),
		"/v1/service":  fixture(t, "services.json"),
		"/v1/config":   `{"spec":{},"status":{"daemonConfigurationMap":` + fixture(t, "config.json") + `,"realized":{"options":{"Debug":"Enabled"}}}}`,
	}
	f.start()
	t.Cleanup(f.stop)
	return f
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (f *fakeAgent) start() {
	f.t.Helper()
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		f.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", f.answer)
	mux.HandleFunc("GET /statedb/query", f.query)
	mux.HandleFunc("GET /statedb/changes/{table}", f.changes)
	f.server = httptest.NewUnstartedServer(mux)
	f.server.Listener.Close()
	f.server.Listener = l
	f.server.Start()
}

// endStreams ends the streams of tables that are open, behind what was pushed down them; the agent stays.
func (f *fakeAgent) endStreams(tables ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, table := range tables {
		for _, c := range f.streams[table] {
			close(c)
		}
		delete(f.streams, table)
	}
}

// stop ends the agent as a restart does: streams end, the socket goes.
func (f *fakeAgent) stop() {
	f.endStreams("frontends", "backends")
	f.server.CloseClientConnections()
	f.server.Close()
}

func (f *fakeAgent) set(path, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[path] = body
}

// push sends a line down the streams of a table, cut in two writes, as a chunk's border may fall anywhere.
func (f *fakeAgent) push(table, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.streams[table] {
		c <- line[:len(line)/2]
		c <- line[len(line)/2:] + "\n"
	}
}

func (f *fakeAgent) answer(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	body, ok := f.answers[r.URL.Path]
	f.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, body)
}

func (f *fakeAgent) query(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Table      string `json:"table"`
		LowerBound bool   `json:"lowerbound"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || !ask.LowerBound {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.rows[ask.Table] {
		fmt.Fprintln(w, line)
	}
}

func (f *fakeAgent) changes(w http.ResponseWriter, r *http.Request) {
	table := r.PathValue("table")
	f.mu.Lock()
	if f.rows == nil {
		f.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	c := make(chan string, 100)
	f.streams[table] = append(f.streams[table], c)
	for _, line := range f.rows[table] {
		c <- line + "\n"
	}
	f.mu.Unlock()
	flush := w.(http.Flusher)
	w.WriteHeader(http.StatusOK)
	flush.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case text, ok := <-c:
			if !ok {
				return
			}
			fmt.Fprint(w, text)
			flush.Flush()
		}
	}
}

// tape collects what a source emits.
type tape struct {
	mu      sync.Mutex
	events  []*eventpb.Event
	changed chan struct{}
}

func newTape() *tape { return &tape{changed: make(chan struct{})} }

func (p *tape) emit(ctx context.Context, events ...*eventpb.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, events...)
	close(p.changed)
	p.changed = make(chan struct{})
	return ctx.Err()
}

// objects are those emitted of one kind, in order.
func (p *tape) objects(kind string) []*eventpb.AgentObject {
	p.mu.Lock()
	defer p.mu.Unlock()
	return objectsOf(p.events, kind)
}

func objectsOf(events []*eventpb.Event, kind string) []*eventpb.AgentObject {
	var out []*eventpb.AgentObject
	for _, e := range events {
		if e.GetAgent().GetKind() == kind {
			out = append(out, e.GetAgent().GetObjects()...)
		}
	}
	return out
}

// wait returns the objects of one kind as soon as they are as asked for.
func (p *tape) wait(t *testing.T, kind string, ok func([]*eventpb.AgentObject) bool) []*eventpb.AgentObject {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		p.mu.Lock()
		changed, got := p.changed, objectsOf(p.events, kind)
		p.mu.Unlock()
		if ok(got) {
			return got
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited in vain; %d objects of kind %s: %v", len(got), kind, keys(got))
		}
	}
}

func keys(objects []*eventpb.AgentObject) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.Key)
	}
	slices.Sort(out)
	return out
}

// running is a source that runs until the test ends or stop is called.
type running struct {
	*tape
	ready chan struct{}
	done  chan error
	end   context.CancelFunc
}

func run(t *testing.T, s *Source) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{tape: newTape(), ready: make(chan struct{}), done: make(chan error, 1), end: cancel}
	go func() { r.done <- s.Run(ctx, r.emit, func() { close(r.ready) }); close(r.done) }()
	t.Cleanup(func() { cancel(); <-r.done })
	return r
}

// up waits for the first snapshot.
func (r *running) up(t *testing.T) *running {
	t.Helper()
	select {
	case <-r.ready:
	case err := <-r.done:
		t.Fatalf("Run ended: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("not ready in 10 s")
	}
	return r
}

func (r *running) broke(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("Run did not end")
		return nil
	}
}
