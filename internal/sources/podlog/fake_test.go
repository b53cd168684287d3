package podlog

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"k8s.io/client-go/rest"
)

// fakeNode is an API server with one pod of one container, whose log it serves as a kubelet does: the newest file
// only, lines with a stamp that is not before sinceTime, to the end or on until the container ends.
type fakeNode struct {
	*httptest.Server
	*sourcetest.Cluster
	t *testing.T

	mu     sync.Mutex
	uid    string
	runs   []*fakeRun // the last one is the current
	cut    chan struct{}
	wake   chan struct{}
	pods   int // requests for the pod, answered or not
	status int // answer everything with this code
}

type fakeRun struct {
	id    string
	lines []fakeLine
	over  bool
}

type fakeLine struct {
	at   time.Time
	text string
	open bool // without a line's end yet
}

func newFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	f := &fakeNode{t: t, uid: "uid-1", Cluster: sourcetest.NewCluster(), cut: make(chan struct{}), wake: make(chan struct{})}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() { f.breakStreams(); f.Close() })
	return f
}

func (f *fakeNode) config() Config {
	return Config{Rest: &rest.Config{Host: f.URL}, Cluster: f, Pods: []PodRef{{"shop", "holder"}}}
}

// begin starts an instance; the one before it, if any, is over.
func (f *fakeNode) begin(id string) {
	f.mu.Lock()
	for _, r := range f.runs {
		r.over = true
	}
	f.runs = append(f.runs, &fakeRun{id: id})
	f.mu.Unlock()
	f.notify()
}

// publish shows the pod's state to the cluster's watchers.
func (f *fakeNode) publish() {
	f.mu.Lock()
	c := &eventpb.Container{Name: "holder"}
	if n := len(f.runs); n > 0 {
		c.Id, c.State = f.runs[n-1].id, "running"
		if f.runs[n-1].over {
			c.State = "terminated"
		}
		if n > 1 {
			c.PreviousId = f.runs[n-2].id
		}
		c.Restarts = int32(n - 1)
	}
	o := &eventpb.KubeObject{Namespace: "shop", Name: "holder", Uid: f.uid, Pod: &eventpb.Pod{Containers: []*eventpb.Container{c}}}
	f.mu.Unlock()
	f.Set(o)
}

func (f *fakeNode) end() {
	f.mu.Lock()
	f.runs[len(f.runs)-1].over = true
	f.mu.Unlock()
	f.notify()
}

// replacePod makes a pod of the same name.
func (f *fakeNode) replacePod(uid, id string) {
	f.end()
	f.Set()
	f.mu.Lock()
	f.uid, f.runs = uid, nil
	f.mu.Unlock()
	f.begin(id)
	f.publish()
}

func (f *fakeNode) log(at time.Time, texts ...string) {
	f.mu.Lock()
	r := f.runs[len(f.runs)-1]
	for _, text := range texts {
		r.lines = append(r.lines, fakeLine{at: at, text: text})
	}
	f.mu.Unlock()
	f.notify()
}

// rotate takes the log's file away.
func (f *fakeNode) rotate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs[len(f.runs)-1].lines = nil
}

func (f *fakeNode) notify() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.wake)
	f.wake = make(chan struct{})
}

// breakStreams ends all open streams; with act, requests fail while it is done.
func (f *fakeNode) breakStreams(act ...func()) {
	f.mu.Lock()
	if len(act) > 0 {
		f.status = http.StatusServiceUnavailable
	}
	close(f.cut)
	f.cut = make(chan struct{})
	f.mu.Unlock()
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
	status, exists := f.status, len(f.runs) > 0
	f.mu.Unlock()
	switch {
	case status != 0:
		sourcetest.Refuse(w, status)
	case !exists:
		sourcetest.Refuse(w, http.StatusNotFound)
	case log:
		f.serveLog(w, r)
	default:
		f.servePod(w)
	}
}

// podRequests is how often the pod was asked for.
func (f *fakeNode) podRequests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods
}

func (f *fakeNode) servePod(w http.ResponseWriter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.runs)
	status := map[string]any{"name": "holder", "containerID": f.runs[n-1].id}
	if n > 1 {
		status["lastState"] = map[string]any{"terminated": map[string]any{"containerID": f.runs[n-2].id}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{"namespace": "shop", "name": "holder", "uid": f.uid},
		"status": map[string]any{"containerStatuses": []any{status}},
	})
}

func (f *fakeNode) serveLog(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("timestamps") != "true" && q.Get("limitBytes") == "" {
		f.t.Error("a log is asked for without stamps")
	}
	f.mu.Lock()
	run, cut := f.runs[len(f.runs)-1], f.cut
	if q.Get("previous") == "true" {
		if len(f.runs) < 2 {
			f.mu.Unlock()
			sourcetest.Refuse(w, http.StatusBadRequest)
			return
		}
		run = f.runs[len(f.runs)-2]
	}
	f.mu.Unlock()
	since, _ := time.Parse(time.RFC3339, q.Get("sinceTime"))
	w.WriteHeader(http.StatusOK)
	for sent := 0; ; {
		f.mu.Lock()
		wake, over, lines := f.wake, run.over, slices.Clone(run.lines)
		f.mu.Unlock()
		if n, err := strconv.Atoi(q.Get("tailLines")); err == nil && sent == 0 && len(lines) > n {
			sent = len(lines) - n
		}
		for ; sent < len(lines); sent++ {
			if l := lines[sent]; !l.at.Before(since) {
				fmt.Fprintf(w, "%s %s", l.at.Format(time.RFC3339Nano), l.text)
				if !l.open {
					fmt.Fprint(w, "\n")
				}
			}
		}
		w.(http.Flusher).Flush()
		if q.Get("follow") != "true" || over {
			return
		}
		select {
		case <-wake:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}
