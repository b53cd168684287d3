package podlog_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/sources/kube"
	"github.com/tapedeck-io/tapedeck/internal/sources/podlog"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
)

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

// A container that logs, dies and starts again, on a real kubelet: each instance's lines once, under its own ID.
func TestLabCrashingPod(t *testing.T) {
	sourcetest.NeedLab(t)
	rest, err := kube.Connect("")
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Namespace(t, "t-podlog")
	cluster := kube.New(kube.Config{})
	sourcetest.Run(t, cluster)
	source := podlog.New(podlog.Config{Rest: rest, Cluster: cluster, Pods: []podlog.PodRef{{Namespace: "t-podlog", Name: "talker"}, {Namespace: "cca-dp", Name: "holder"}}})
	for _, f := range source.Check(t.Context()) {
		t.Logf("%s: %s %v", f.Thing, f.Seen, f.Err)
	}
	r := sourcetest.Run(t, source)
	r.Ready()

	whole := []string{"line 1 of talker", "line 2 of talker", "line 3 of talker", "bye"}
	logs := map[string][]string{} // by container ID
	until := func(instances int) {
		for n := 0; n < instances; {
			e := r.Next()
			id := e.GetLog().GetContainerId()
			for _, l := range e.GetLog().GetLines() {
				logs[id] = append(logs[id], l.Text)
				t.Logf("%s: %q, %v after the kubelet's stamp", id, l.Text, time.Unix(0, e.SeenNs).Sub(time.Unix(0, l.TimeNs)))
			}
			n = 0
			for _, lines := range logs {
				if slices.Equal(lines, whole) {
					n++
				}
			}
		}
	}
	sourcetest.Kubectl(t, talker, "apply", "-f", "-")
	until(2)
	sourcetest.Kubectl(t, "", "-n", "t-podlog", "delete", "pod", "talker")
	sourcetest.Kubectl(t, talker, "apply", "-f", "-")
	until(4)
}
