package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// nodeFaults are made one after the other by lab/scenarios/node-faults, with the rule that must find each. Those that the agent
// alone mends last until it is started anew.
var nodeFaults = []struct {
	name, rule string
	lasts      bool
}{
	{"rules", "kube-proxy-beside", false},
	{"chains", "kube-proxy-left", false},
	{"legacy", "rules-hidden", false},
	{"neighbour", "neighbour-failed", false},
	{"socket", "socket-lb-incomplete", true},
	{"program", "program-missing", true},
	{"twice", "program-doubled", false},
	{"pin", "pin-unused", true},
	{"listener", "listener-collision", false},
}

// TestNodeFaults makes what should not be on a node, and waits until it is found, and until that has ended when it is mended. It
// keeps the tape in the folder TAPEDECK_KEEP names.
func TestNodeFaults(t *testing.T) {
	l := start(t)
	l.run("lab/steps", "1")
	fault := func(args ...string) { l.run("lab/scenarios/node-faults", args...) }
	fault("up")
	t.Cleanup(func() { fault("down") })
	l.ready()
	l.record()
	mark := func(text string) { l.run("bin/recorder", "mark", "--session", l.session, text) }
	for _, f := range nodeFaults {
		l.unfound(f.rule)
		mark("fault " + f.name)
		fault("make", f.name)
		l.found(f.rule)
		if !f.lasts {
			fault("mend", f.name)
			l.unfound(f.rule)
		}
	}
	mark("the agent starts anew")
	l.run("lab/agent")
	l.found("recorder-gap") // in which it was down
	l.ready()
	for _, f := range nodeFaults {
		l.unfound(f.rule)
	}
	mark("fault cgroup")
	fault("make", "cgroup")
	l.found("socket-lb-elsewhere")
	l.stop(syscall.SIGTERM)
	fault("mend", "cgroup")
	if keep := os.Getenv("TAPEDECK_KEEP"); keep != "" {
		l.run("bin/recorder", "pack", "--session", l.session, "--force", "-o", filepath.Join(keep, "faults.tape"))
	}
}

// ready waits until the agent has loaded the programs of every endpoint.
func (l *lab) ready() {
	l.Helper()
	l.eventually(time.Minute, "all endpoints ready", func() error {
		out, err := l.try("lab/exec", "sh", "-c", `cilium-dbg endpoint list -o json | jq -r '.[].status.state' | grep -cvx ready`)
		if err != nil && out == "0\n" {
			return nil // grep found none
		}
		return fmt.Errorf("%s endpoints are not ready", out)
	})
}

// rules are those that findings of last.
func (l *lab) rules() (list []string) {
	var f struct{ Open []struct{ Rule string } }
	if err := l.read("findings.json", &f); err != nil {
		l.Fatal(err)
	}
	for _, x := range f.Open {
		list = append(list, x.Rule)
	}
	return list
}

func (l *lab) found(rule string) {
	l.Helper()
	l.eventually(40*time.Second, rule+" is found", func() error {
		if all := l.rules(); !slices.Contains(all, rule) {
			return fmt.Errorf("found %q", all)
		}
		return nil
	})
}

func (l *lab) unfound(rule string) {
	l.Helper()
	l.eventually(90*time.Second, rule+" ends", func() error {
		if all := l.rules(); slices.Contains(all, rule) {
			return fmt.Errorf("found %q", all)
		}
		return nil
	})
}
