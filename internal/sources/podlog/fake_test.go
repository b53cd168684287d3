package podlog

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"k8s.io/client-go/rest"
)

// fakeNode is an API server with one pod of one container.
type fakeNode struct {
	*httptest.Server
	*sourcetest.Cluster
	log *sourcetest.ContainerLog
	t   *testing.T

	mu     sync.Mutex
	uid    string
	pods   int // requests for the pod, answered or not
	status int // answer everything with this code
}

func newFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	f := &fakeNode{t: t, uid: "uid-1", Cluster: sourcetest.NewCluster(), log: sourcetest.NewContainerLog()}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() { f.breakStreams(); f.Close() })
	return f
}

func (f *fakeNode) config() Config {
	return Config{Rest: &rest.Config{Host: f.URL}, Cluster: f, Pods: []PodRef{{"shop", "holder"}}}
}

// publish shows the pod's state to the cluster's watchers.
func (f *fakeNode) publish() {
	f.mu.Lock()
	c := &eventpb.Container{Name: "holder"}
	if ids, over := f.log.Instances(); len(ids) > 0 {
		c.Id, c.State, c.Restarts = ids[len(ids)-1], "running", int32(len(ids)-1)
		if over {
			c.State = "terminated"
		}
		if len(ids) > 1 {
			c.PreviousId = ids[len(ids)-2]
		}
	}
	o := &eventpb.KubeObject{Namespace: "shop", Name: "holder", Uid: f.uid, Pod: &eventpb.Pod{Containers: []*eventpb.Container{c}}}
	f.mu.Unlock()
	f.Set(o)
}

// replacePod makes a pod of the same name.
func (f *fakeNode) replacePod(uid, id string) {
	f.log.End()
	f.Set()
	f.mu.Lock()
	f.uid = uid
	f.mu.Unlock()
	f.log.Forget()
	f.log.Begin(id)
	f.publish()
}

// breakStreams ends all open streams; with act, requests fail while it is done.
func (f *fakeNode) breakStreams(act ...func()) {
	f.mu.Lock()
	if len(act) > 0 {
		f.status = http.StatusServiceUnavailable
	}
	f.mu.Unlock()
	f.log.Break()
	for _, a := range act {
		a()
	}
	f.mu.Lock()
	f.status = 0
	f.mu.Unlock()
}

func (f *fakeNode) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	log := strings.HasSuffix(r.URL.Path, "/log")
	if !log {
		f.pods++
	}
	status := f.status
	f.mu.Unlock()
	ids, _ := f.log.Instances()
	switch {
	case status != 0:
		sourcetest.Refuse(w, status)
	case len(ids) == 0:
		sourcetest.Refuse(w, http.StatusNotFound)
	case log:
		f.serveLog(w, r)
	default:
		f.servePod(w, ids)
	}
}

// podRequests is how often the pod was asked for.
func (f *fakeNode) podRequests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods
}

func (f *fakeNode) servePod(w http.ResponseWriter, ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(ids)
	status := map[string]any{"name": "holder", "containerID": ids[n-1]}
	if n > 1 {
		status["lastState"] = map[string]any{"terminated": map[string]any{"containerID": ids[n-2]}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{"namespace": "shop", "name": "holder", "uid": f.uid},
		"status": map[string]any{"containerStatuses": []any{status}},
	})
}

func (f *fakeNode) serveLog(w http.ResponseWriter, r *http.Request) {
	if q := r.URL.Query(); q.Get("timestamps") != "true" && q.Get("limitBytes") == "" {
		f.t.Error("a log is asked for without stamps")
	}
	f.log.ServeHTTP(w, r)
}
