// Package kubetest is an API server whose objects change, for the tests of what watches one.
package kubetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
)

// API speaks list and watch as the API server does: one revision for all, a history that can be compacted,
// connections that can be cut. Objects are plain JSON.
type API struct {
	*httptest.Server

	mu        sync.Mutex
	revision  int
	compacted int
	history   []event
	objects   map[string]map[string]map[string]any // plural, namespace/name
	wake      chan struct{}                        // closed at every change
	cut       chan struct{}                        // closed to end the open watches
	logs      map[string]http.Handler              // namespace/pod
	lists     map[string]int
	status    map[string]int // plural: answer requests with this code

	GoneInStream bool                // say 410 as an ERROR event instead of a status
	AfterList    func(plural string) // may be nil
}

type event struct {
	revision int
	kind     string
	plural   string
	object   map[string]any
}

var types = map[string]struct{ version, kind string }{
	"services":        {"v1", "Service"},
	"pods":            {"v1", "Pod"},
	"nodes":           {"v1", "Node"},
	"endpointslices":  {"discovery.k8s.io/v1", "EndpointSlice"},
	"ciliumendpoints": {"cilium.io/v2", "CiliumEndpoint"},
}

// New returns one that knows a node, and lives as long as the test.
func New(t testing.TB) *API {
	t.Helper()
	a := &API{
		revision: 100, objects: map[string]map[string]map[string]any{}, wake: make(chan struct{}), cut: make(chan struct{}),
		logs: map[string]http.Handler{}, lists: map[string]int{}, status: map[string]int{},
	}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() { a.BreakWatches(); a.Close() })
	a.Put("nodes", `{"metadata":{"name":"lab"},"status":{"addresses":[{"type":"InternalIP","address":"192.168.96.10"}]}}`)
	return a
}

// Kubeconfig writes a file that points here.
func (a *API) Kubeconfig(t testing.TB) string {
	t.Helper()
	return sourcetest.WriteKubeconfig(t, a.URL)
}

// Put creates or changes an object and returns its resourceVersion.
func (a *API) Put(plural, text string) string {
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision++
	m := o["metadata"].(map[string]any)
	m["resourceVersion"] = strconv.Itoa(a.revision)
	o["apiVersion"], o["kind"] = types[plural].version, types[plural].kind
	if a.objects[plural] == nil {
		a.objects[plural] = map[string]map[string]any{}
	}
	kind := "ADDED"
	if a.objects[plural][nameOf(o)] != nil {
		kind = "MODIFIED"
	}
	a.objects[plural][nameOf(o)] = o
	a.record(kind, plural, o)
	return strconv.Itoa(a.revision)
}

// Remove deletes one, by namespace/name.
func (a *API) Remove(plural, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision++
	o := a.objects[plural][name]
	delete(a.objects[plural], name)
	a.record("DELETED", plural, o)
}

func (a *API) record(kind, plural string, o map[string]any) {
	a.history = append(a.history, event{a.revision, kind, plural, o})
	close(a.wake)
	a.wake = make(chan struct{})
}

// BreakWatches ends the connections of all watches.
func (a *API) BreakWatches() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.cut)
	a.cut = make(chan struct{})
}

// Offline does act while no request gets through and with no watch open.
func (a *API) Offline(act func()) {
	all := slices.Collect(maps.Keys(types))
	a.Answer(http.StatusServiceUnavailable, all...)
	a.BreakWatches()
	act()
	a.Answer(0, all...)
}

// Restart takes the server away, does act while nothing listens, and brings it back at the same address.
func (a *API) Restart(t testing.TB, act func()) {
	t.Helper()
	address := a.Listener.Addr().String()
	a.Listener.Close() // first: a watch that is opened again and cut at once is listed anew
	a.CloseClientConnections()
	a.BreakWatches()
	a.Close()
	act()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	a.Server = s
}

// Answer makes requests for these resources be answered with a status; 0 answers them again.
func (a *API) Answer(status int, plurals ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range plurals {
		a.status[p] = status
	}
}

// Compact forgets the history, so that a watch cannot resume.
func (a *API) Compact() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision++
	a.compacted, a.history = a.revision, nil
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/version" {
		fmt.Fprint(w, `{"gitVersion":"v1.34.4"}`)
		return
	}
	if r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/exec") {
		panic("the recorder writes: " + r.Method + " " + r.URL.Path)
	}
	plural, name, sub := parsePath(r.URL.Path)
	a.mu.Lock()
	status, log := a.status[plural], a.logs[name]
	a.mu.Unlock()
	switch {
	case status != 0:
		sourcetest.Refuse(w, status)
	case sub == "log" && log != nil:
		log.ServeHTTP(w, r)
	case sub != "":
		sourcetest.Refuse(w, http.StatusNotFound)
	case name != "":
		a.serveGet(w, plural, name)
	case r.URL.Query().Get("watch") != "":
		a.serveWatch(w, r, plural)
	default:
		a.serveList(w, r, plural)
		if a.AfterList != nil {
			a.AfterList(plural)
		}
	}
}

// parsePath takes /api/v1/namespaces/NS/PLURAL/NAME/SUB apart, and what is shorter; name is NS/NAME.
func parsePath(path string) (plural, name, sub string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := 2 // api/v1
	if parts[0] == "apis" {
		group = 3
	}
	parts = append(parts[min(group, len(parts)):], "", "", "", "", "")
	if parts[0] == "namespaces" && parts[2] != "" {
		if parts[3] == "" {
			return parts[2], "", ""
		}
		return parts[2], parts[1] + "/" + parts[3], parts[4]
	}
	if parts[1] == "" {
		return parts[0], "", ""
	}
	return parts[0], "/" + parts[1], ""
}

// ServeLog answers for a pod's log with h.
func (a *API) ServeLog(namespace, pod string, h http.Handler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logs[namespace+"/"+pod] = h
}

func (a *API) serveGet(w http.ResponseWriter, plural, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.objects[plural][name]
	if o == nil {
		sourcetest.Refuse(w, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

func (a *API) serveList(w http.ResponseWriter, r *http.Request, plural string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lists[plural]++
	items := []any{}
	for _, o := range a.objects[plural] {
		if selected(r, o) {
			items = append(items, o)
		}
	}
	slices.SortFunc(items, func(a, b any) int {
		return cmp.Compare(nameOf(a.(map[string]any)), nameOf(b.(map[string]any)))
	})
	t := types[plural]
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": t.version, "kind": t.kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.revision)}, "items": items,
	})
}

func (a *API) serveWatch(w http.ResponseWriter, r *http.Request, plural string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	a.mu.Lock()
	gone, inStream, cut := from < a.compacted, a.GoneInStream, a.cut
	a.mu.Unlock()
	if gone && !inStream {
		sourcetest.Refuse(w, http.StatusGone)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	if gone {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "ERROR", "object": sourcetest.Refusal(http.StatusGone)})
		return
	}
	for {
		a.mu.Lock()
		wake := a.wake
		first, _ := slices.BinarySearchFunc(a.history, from+1, func(e event, revision int) int { return e.revision - revision })
		for _, e := range a.history[first:] {
			if e.plural == plural && selected(r, e.object) {
				o := e.object
				if e.kind == "DELETED" { // as in etcd: the revision of the deletion
					o = withRevision(o, e.revision)
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": o})
			}
			from = max(from, e.revision)
		}
		a.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-wake:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// Revision is the newest.
func (a *API) Revision() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.revision
}

// Listed is how often a list was asked for.
func (a *API) Listed(plural string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lists[plural]
}

func nameOf(o map[string]any) string {
	m := o["metadata"].(map[string]any)
	ns, _ := m["namespace"].(string)
	return ns + "/" + m["name"].(string)
}

func withRevision(o map[string]any, revision int) map[string]any {
	var c map[string]any
	text, _ := json.Marshal(o)
	_ = json.Unmarshal(text, &c)
	c["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(revision)
	return c
}

func selected(r *http.Request, o map[string]any) bool {
	node, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "spec.nodeName=")
	if !ok {
		return true
	}
	spec, _ := o["spec"].(map[string]any)
	return spec["nodeName"] == node
}
