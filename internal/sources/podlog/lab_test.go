package podlog_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube"
	"github.com/tapedeck-io/tapedeck/internal/sources/podlog"
)

func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

const talker = `
apiVersion: v1
kind: Pod
metadata: {name: talker, namespace: t-podlog}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: talker
    image: lab.local/tools:1
    imagePullPolicy: Never
    command: [/bin/sh, -c, "for i in 1 2 3; do echo line $i of $HOSTNAME; done; sleep 3; echo bye; exit 1"]
`

// collected are the lines of a log source, by container ID, with the time from the kubelet's stamp to the emit.
type collected struct {
	mu    sync.Mutex
	lines map[string][]string
	late  []time.Duration
	wake  chan struct{}
}

func (c *collected) emit(_ context.Context, list ...*eventpb.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range list {
		for _, l := range e.GetLog().GetLines() {
			id := e.GetLog().ContainerId
			c.lines[id] = append(c.lines[id], l.Text)
			c.late = append(c.late, time.Since(time.Unix(0, l.TimeNs)))
		}
	}
	close(c.wake)
	c.wake = make(chan struct{})
	return nil
}

func (c *collected) until(t *testing.T, ok func() bool) {
	t.Helper()
	for late := time.After(60 * time.Second); ; {
		c.mu.Lock()
		done, wake := ok(), c.wake
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-wake:
		case <-late:
			t.Fatalf("got %q", c.lines)
		}
	}
}

// A container that logs, dies and starts again, on a real kubelet: each instance's lines once, under its own ID.
func TestLabCrashingPod(t *testing.T) {
	if os.Getenv("TAPEDECK_LAB") != "1" {
		t.Skip("needs the one-node cluster of lab/; set TAPEDECK_LAB=1")
	}
	rest, err := kube.Connect("")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "", "create", "namespace", "t-podlog")
	t.Cleanup(func() { kubectl(t, "", "delete", "namespace", "t-podlog", "--wait=false") })

	cluster := kube.New(kube.Config{})
	logs := &collected{lines: map[string][]string{}, wake: make(chan struct{})}
	source := podlog.New(podlog.Config{Rest: rest, Cluster: cluster, Pods: []podlog.PodRef{{Namespace: "t-podlog", Name: "talker"}, {Namespace: "cca-dp", Name: "holder"}}})
	for _, f := range source.Check(t.Context()) {
		t.Logf("%s: %s %v", f.Thing, f.Seen, f.Err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	none := func(context.Context, ...*eventpb.Event) error { return nil }
	wg.Go(func() { _ = cluster.Run(ctx, none, func() {}) })
	ready := make(chan struct{})
	wg.Go(func() { _ = source.Run(ctx, logs.emit, func() { close(ready) }) })
	<-ready

	kubectl(t, talker, "apply", "-f", "-")
	whole := []string{"line 1 of talker", "line 2 of talker", "line 3 of talker", "bye"}
	count := func() (n int) {
		for _, lines := range logs.lines {
			if cmp.Equal(lines, whole) {
				n++
			}
		}
		return n
	}
	logs.until(t, func() bool { return count() >= 2 })
	kubectl(t, "", "-n", "t-podlog", "delete", "pod", "talker")
	kubectl(t, talker, "apply", "-f", "-")
	logs.until(t, func() bool { return count() >= 4 })
	t.Logf("from the kubelet's stamp to the event: %v", logs.late)
	for id, lines := range logs.lines {
		t.Logf("%s: %q", id, lines)
	}
}
