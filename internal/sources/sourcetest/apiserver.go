package sourcetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// APIServer is the API server of a cluster that stays as it is. It answers gets, lists, watches and logs, refuses to upgrade
// for an exec, and remembers what it was asked for, in the words of RBAC.
type APIServer struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string][]json.RawMessage // by group/resource
	logs    map[string]string            // by namespace/pod
	asked   map[Request]bool
	closing chan struct{}
}

// Request is what a rule of RBAC allows or not. Cluster-wide ones have no namespace.
type Request struct{ Verb, Group, Resource, Namespace, Name string }

var listTypes = map[string]struct{ version, kind string }{
	"/services":                       {"v1", "ServiceList"},
	"/pods":                           {"v1", "PodList"},
	"/nodes":                          {"v1", "NodeList"},
	"/secrets":                        {"v1", "SecretList"},
	"/configmaps":                     {"v1", "ConfigMapList"},
	"discovery.k8s.io/endpointslices": {"discovery.k8s.io/v1", "EndpointSliceList"},
	"cilium.io/ciliumendpoints":       {"cilium.io/v2", "CiliumEndpointList"},
}

// NewAPIServer returns one of an empty cluster, which lives as long as the test.
func NewAPIServer(t testing.TB) *APIServer {
	a := &APIServer{
		objects: map[string][]json.RawMessage{}, logs: map[string]string{}, asked: map[Request]bool{}, closing: make(chan struct{}),
	}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() { close(a.closing); a.Close() })
	return a
}

// Put adds an object, as JSON, of "" for the core group.
func (a *APIServer) Put(group, resource, object string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := group + "/" + resource
	a.objects[key] = append(a.objects[key], json.RawMessage(object))
}

// Log gives a pod its log: lines that begin with a time stamp.
func (a *APIServer) Log(namespace, pod, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logs[namespace+"/"+pod] = text
}

// Asked are the requests so far, each once.
func (a *APIServer) Asked() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.asked))
}

// Kubeconfig writes a file that points here.
func (a *APIServer) Kubeconfig(t testing.TB) string {
	t.Helper()
	return WriteKubeconfig(t, a.URL)
}

// WriteKubeconfig writes a file that points to url.
func WriteKubeconfig(t testing.TB, url string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}]}`, url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (a *APIServer) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/version" { // which everybody may ask for
		fmt.Fprint(w, `{"gitVersion":"v1.34.4"}`)
		return
	}
	q := parseRequest(r)
	a.mu.Lock()
	a.asked[q] = true
	text, isLog := a.logs[q.Namespace+"/"+q.Name]
	a.mu.Unlock()
	switch {
	case q.Resource == "pods/log" && isLog:
		fmt.Fprint(w, text)
		a.hold(w, r, r.URL.Query().Get("follow") == "true")
	case q.Verb == "watch":
		w.Header().Set("Content-Type", "application/json")
		a.hold(w, r, true)
	case q.Verb == "list":
		a.list(w, q.Group+"/"+q.Resource)
	case q.Verb == "get" && a.get(w, q):
	case strings.HasSuffix(q.Resource, "/exec"):
		Refuse(w, http.StatusBadRequest)
	default:
		Refuse(w, http.StatusNotFound)
	}
}

// get answers with one object, if there is one of that name.
func (a *APIServer) get(w http.ResponseWriter, q Request) bool {
	key := q.Group + "/" + q.Resource
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, text := range a.objects[key] {
		var o map[string]any
		if json.Unmarshal(text, &o) != nil {
			continue
		}
		m, _ := o["metadata"].(map[string]any)
		if m["name"] == q.Name && (m["namespace"] == q.Namespace || q.Namespace == "") {
			o["apiVersion"], o["kind"] = listTypes[key].version, strings.TrimSuffix(listTypes[key].kind, "List")
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(o)
			return true
		}
	}
	return false
}

// hold keeps an answer open, as one that goes on.
func (a *APIServer) hold(w http.ResponseWriter, r *http.Request, on bool) {
	w.(http.Flusher).Flush()
	if !on {
		return
	}
	select {
	case <-a.closing:
	case <-r.Context().Done():
	}
}

func (a *APIServer) list(w http.ResponseWriter, key string) {
	t, known := listTypes[key]
	if !known {
		Refuse(w, http.StatusNotFound)
		return
	}
	a.mu.Lock()
	items := append([]json.RawMessage{}, a.objects[key]...)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": t.version, "kind": t.kind, "metadata": map[string]string{"resourceVersion": "1"}, "items": items,
	})
}

// parseRequest reads a path as the API server does: /api/v1 or /apis/GROUP/VERSION, then
// [/namespaces/NAMESPACE]/RESOURCE[/NAME[/SUBRESOURCE]].
func parseRequest(r *http.Request) (q Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if path[0] == "apis" && len(path) > 1 {
		q.Group, path = path[1], path[1:]
	}
	path = path[min(2, len(path)):]
	if len(path) > 2 && path[0] == "namespaces" {
		q.Namespace, path = path[1], path[2:]
	}
	path = append(path, "", "", "")
	q.Resource, q.Name = path[0], path[1]
	if path[2] != "" {
		q.Resource += "/" + path[2]
	}
	switch {
	case r.Method == http.MethodPost:
		q.Verb = "create"
	case r.Method != http.MethodGet:
		q.Verb = strings.ToLower(r.Method)
	case q.Name != "":
		q.Verb = "get"
	case r.URL.Query().Get("watch") != "":
		q.Verb = "watch"
	default:
		q.Verb = "list"
	}
	return q
}
