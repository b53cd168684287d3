package probe_test

import (
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/sources/kube"
	"github.com/tapedeck-io/tapedeck/internal/sources/probe"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
)

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
	sourcetest.NeedLab(t)
	rest, err := kube.Connect("")
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Namespace(t, "t-probe")
	sourcetest.Kubectl(t, pods, "apply", "-f", "-")
	sourcetest.Kubectl(t, "", "-n", "t-probe", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")

	p := &profile.Profile{Namespace: "t-probe", NodePort: profile.NodePort{Service: "web-np", Port: 80}, Ghost: profile.Ghost{Service: "ghost", Port: 80, ProbePod: "probe", TimeoutSeconds: 5}}
	cluster := kube.New(kube.Config{})
	sourcetest.Run(t, cluster)
	source := probe.New(probe.Config{Rest: rest, Cluster: cluster, Profile: p})
	for _, f := range source.Check(t.Context()) {
		if f.Err != nil {
			t.Error(f.Err)
		}
		t.Logf("%s: %s", f.Thing, f.Seen)
	}
	run := sourcetest.Run(t, source)
	run.Ready()

	began := time.Now()
	sourcetest.Kubectl(t, services, "apply", "-f", "-")
	for web, ghost := false, false; !web || !ghost; {
		if time.Since(began) > time.Minute {
			t.Fatal("no 200 from the NodePort, or no refusal from the Service without backends")
		}
		e := run.Next()
		r := e.GetProbe()
		t.Logf("%v: %v", time.Since(began).Round(time.Millisecond), e)
		web = web || r.GetName() == "nodeport" && r.GetHttpCode() == 200 && r.GetExitCode() == 0
		ghost = ghost || r.GetName() == "ghost" && r.GetHttpCode() == 0 && r.GetExitCode() == 7 && r.GetSeconds() < 1
	}
}
