package probe_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube"
	"github.com/tapedeck-io/tapedeck/internal/sources/probe"
)

func kubectl(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

const pods = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: t-probe, labels: {app: web}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: "lab.local/tools:1", imagePullPolicy: Never, command: [/app, web]}
---
apiVersion: v1
kind: Pod
metadata: {name: probe, namespace: t-probe}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - {name: probe, image: "lab.local/tools:1", imagePullPolicy: Never, command: [/bin/sleep, "86400"]}
`

const services = `
apiVersion: v1
kind: Service
metadata: {name: web-np, namespace: t-probe}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: ghost, namespace: t-probe}
spec: {selector: {app: ghost}, ports: [{port: 80, targetPort: 8080}]}
`

// On the real datapath: a new NodePort answers 200, a Service without backends refuses (curl's 7) at once.
func TestLabProbes(t *testing.T) {
	if os.Getenv("TAPEDECK_LAB") != "1" {
		t.Skip("needs the one-node cluster of lab/; set TAPEDECK_LAB=1")
	}
	rest, err := kube.Connect("")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "", "create", "namespace", "t-probe")
	t.Cleanup(func() { kubectl(t, "", "delete", "namespace", "t-probe", "--wait=false") })
	kubectl(t, pods, "apply", "-f", "-")
	kubectl(t, "", "-n", "t-probe", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")

	p := &profile.Profile{Namespace: "t-probe", NodePort: profile.NodePort{Service: "web-np", Port: 80}, Ghost: profile.Ghost{Service: "ghost", Port: 80, ProbePod: "probe", TimeoutSeconds: 5}}
	cluster := kube.New(kube.Config{})
	source := probe.New(probe.Config{Rest: rest, Cluster: cluster, Profile: p})
	for _, f := range source.Check(t.Context()) {
		if f.Err != nil {
			t.Error(f.Err)
		}
		t.Logf("%s: %s", f.Thing, f.Seen)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	none := func(context.Context, ...*eventpb.Event) error { return nil }
	wg.Go(func() { _ = cluster.Run(ctx, none, func() {}) })
	results, ready := make(chan *eventpb.Event, 100), make(chan struct{})
	emit := func(_ context.Context, list ...*eventpb.Event) error {
		for _, e := range list {
			results <- e
		}
		return nil
	}
	wg.Go(func() { _ = source.Run(ctx, emit, func() { close(ready) }) })
	<-ready

	began := time.Now()
	kubectl(t, services, "apply", "-f", "-")
	web, ghost := false, false
	for late := time.After(30 * time.Second); !web || !ghost; {
		select {
		case e := <-results:
			r := e.GetProbe()
			t.Logf("%v: %v", time.Since(began).Round(time.Millisecond), e)
			web = web || r.GetName() == "nodeport" && r.GetHttpCode() == 200 && r.GetExitCode() == 0
			ghost = ghost || r.GetName() == "ghost" && r.GetHttpCode() == 0 && r.GetExitCode() == 7 && r.GetSeconds() < 1
		case <-late:
			t.Fatal("no 200 from the NodePort, or no refusal from the Service without backends")
		}
	}
}
