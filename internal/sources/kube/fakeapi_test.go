package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
)

// fakeAPI speaks list and watch as the API server does: one revision for all, a history that can be compacted,
// connections that can be cut. Objects are plain JSON.
type fakeAPI struct {
	*httptest.Server

	mu        sync.Mutex
	revision  int
	compacted int
	history   []fakeEvent
	objects   map[string]map[string]map[string]any // plural, namespace/name
	wake      chan struct{}                        // closed at every change
	cut       chan struct{}                        // closed to end the open watches
	lists     map[string]int
	status    map[string]int // plural: answer requests with this code
	inStream  bool           // say 410 as an ERROR event instead of a status
	afterList func(plural string)
}

type fakeEvent struct {
	revision int
	kind     string
	plural   string
	object   map[string]any
}

var fakeTypes = map[string]struct{ version, kind string }{
	"services":        {"v1", "Service"},
	"pods":            {"v1", "Pod"},
	"nodes":           {"v1", "Node"},
	"endpointslices":  {"discovery.k8s.io/v1", "EndpointSlice"},
	"ciliumendpoints": {"cilium.io/v2", "CiliumEndpoint"},
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	f := &fakeAPI{
		revision: 100, objects: map[string]map[string]map[string]any{}, wake: make(chan struct{}), cut: make(chan struct{}),
		lists: map[string]int{}, status: map[string]int{},
	}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() { f.breakWatches(); f.Close() })
	f.put("nodes", `{"metadata":{"name":"lab"},"status":{"addresses":[{"type":"InternalIP","address":"192.168.96.10"}]}}`)
	return f
}

// kubeconfig writes a file that points here.
func (f *fakeAPI) kubeconfig(t *testing.T) string {
	t.Helper()
	return writeKubeconfig(t, f.URL)
}

func writeKubeconfig(t *testing.T, url string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}]}`, url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// put creates or changes an object and returns its resourceVersion.
func (f *fakeAPI) put(plural, text string) string {
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	m := o["metadata"].(map[string]any)
	m["resourceVersion"] = strconv.Itoa(f.revision)
	o["apiVersion"], o["kind"] = fakeTypes[plural].version, fakeTypes[plural].kind
	if f.objects[plural] == nil {
		f.objects[plural] = map[string]map[string]any{}
	}
	kind := "ADDED"
	if f.objects[plural][nameOf(o)] != nil {
		kind = "MODIFIED"
	}
	f.objects[plural][nameOf(o)] = o
	f.record(kind, plural, o)
	return strconv.Itoa(f.revision)
}

func (f *fakeAPI) remove(plural, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	o := f.objects[plural][name]
	delete(f.objects[plural], name)
	f.record("DELETED", plural, o)
}

func (f *fakeAPI) record(kind, plural string, o map[string]any) {
	f.history = append(f.history, fakeEvent{f.revision, kind, plural, o})
	close(f.wake)
	f.wake = make(chan struct{})
}

// breakWatches ends the connections of all watches.
func (f *fakeAPI) breakWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.cut)
	f.cut = make(chan struct{})
}

// offline does act while no request gets through and with no watch open.
func (f *fakeAPI) offline(act func()) {
	all := slices.Collect(maps.Keys(fakeTypes))
	f.answer(http.StatusServiceUnavailable, all...)
	f.breakWatches()
	act()
	f.answer(0, all...)
}

func (f *fakeAPI) answer(status int, plurals ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range plurals {
		f.status[p] = status
	}
}

// compact forgets the history, so that a watch cannot resume.
func (f *fakeAPI) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	f.compacted, f.history = f.revision, nil
}

func (f *fakeAPI) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/version" {
		fmt.Fprint(w, `{"gitVersion":"v1.34.4"}`)
		return
	}
	if r.Method != http.MethodGet {
		panic("the source writes: " + r.Method + " " + r.URL.Path)
	}
	plural := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	f.mu.Lock()
	status := f.status[plural]
	f.mu.Unlock()
	switch {
	case status != 0:
		sourcetest.Refuse(w, status)
	case r.URL.Query().Get("watch") != "":
		f.serveWatch(w, r, plural)
	default:
		f.serveList(w, r, plural)
		if f.afterList != nil {
			f.afterList(plural)
		}
	}
}

func (f *fakeAPI) serveList(w http.ResponseWriter, r *http.Request, plural string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists[plural]++
	items := []any{}
	for _, o := range f.objects[plural] {
		if selected(r, o) {
			items = append(items, o)
		}
	}
	slices.SortFunc(items, func(a, b any) int {
		return cmp.Compare(nameOf(a.(map[string]any)), nameOf(b.(map[string]any)))
	})
	t := fakeTypes[plural]
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": t.version, "kind": t.kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(f.revision)}, "items": items,
	})
}

func (f *fakeAPI) serveWatch(w http.ResponseWriter, r *http.Request, plural string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	f.mu.Lock()
	gone, inStream, cut := from < f.compacted, f.inStream, f.cut
	f.mu.Unlock()
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
		f.mu.Lock()
		wake := f.wake
		for _, e := range f.history {
			if e.revision > from && e.plural == plural && selected(r, e.object) {
				o := e.object
				if e.kind == "DELETED" { // as in etcd: the revision of the deletion
					o = withRevision(o, e.revision)
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": o})
			}
			from = max(from, e.revision)
		}
		f.mu.Unlock()
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

// listed is how often a list was asked for.
func (f *fakeAPI) listed(plural string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists[plural]
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
