package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRollingTape records what rollouts and losses do to a Service under requests: web is rolled out anew, one of
// its pods is killed hard, and one is drained. It keeps the tape in the folder TAPEDECK_KEEP names, and beside it
// what the requests themselves saw.
func TestRollingTape(t *testing.T) {
	keep := os.Getenv("TAPEDECK_KEEP")
	if keep == "" {
		t.Skip("records testdata anew: run `make tape`")
	}
	l := start(t)
	l.run("lab/steps", "1", "3", "4", "6", "7")
	l.record()
	requests := l.requests()
	mark := func(text string) { l.run("bin/recorder", "mark", "--session", l.session, text) }

	mark("rolling update")
	l.kubectl("rollout", "restart", "deployment/web")
	l.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	l.steady()
	mark("killed hard")
	l.killHard(l.webPod(0))
	l.steady()
	mark("drained")
	l.kubectl("delete", "pod", l.webPod(1), "--wait=true")
	l.steady()
	mark("end")

	dir := filepath.Join(keep, "rolling")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "requests.txt"), []byte(requests()), 0o644); err != nil {
		t.Fatal(err)
	}
	l.stop(syscall.SIGTERM)
	l.run("bin/recorder", "pack", "--session", l.session, "-o", filepath.Join(keep, "rolling.tape"))
}

// requestLoop asks for $1 until /tmp/stop is there, at most 1500 times, and prints for each request when
// it ended, curl's exit code and the HTTP code.
const requestLoop = `
i=0
while [ $i -lt 1500 ] && [ ! -e /tmp/stop ]; do
  code=$(curl -s -o /dev/null -m 2 -w '%{http_code}' "$1"); exit=$?
  echo "$(busybox date -u +%H:%M:%S) exit=$exit http=$code"
  i=$((i+1)); sleep 0.08
done`

// requests starts the loop in the probe pod and returns what ends it and gives what it printed.
func (l *lab) requests() (stop func() string) {
	l.Helper()
	url := "http://" + l.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	var out bytes.Buffer
	cmd := exec.Command(filepath.Join(l.root, "lab/exec"), "kubectl", "-n", "cca-dp", "exec", "probe", "--", "sh", "-c", requestLoop, "sh", url)
	cmd.Stdout, cmd.Stderr = &out, l.log
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	return func() string {
		l.kubectl("exec", "probe", "--", "sh", "-c", ": >/tmp/stop")
		if err := cmd.Wait(); err != nil {
			l.Error("request loop:", err)
		}
		return out.String()
	}
}

// webPod is the name of web's n-th pod.
func (l *lab) webPod(n int) string {
	l.Helper()
	return strings.Fields(l.kubectl("get", "pods", "-l", "app=web", "--field-selector=status.phase=Running", "-o", "name"))[n][len("pod/"):]
}

// steady waits until web has its four pods, all ready and none going, and then for what follows late: three
// seconds in which nothing happens.
func (l *lab) steady() {
	l.Helper()
	l.eventually(time.Minute, "four ready pods", func() error {
		out, err := l.try("lab/exec", "kubectl", "-n", "cca-dp", "get", "pods", "-l", "app=web", "--no-headers")
		if n := strings.Count(out, "1/1"); err == nil && (n != 4 || strings.Count(out, "\n") != 4) {
			err = fmt.Errorf("pods are\n%s", out)
		}
		return err
	})
	time.Sleep(3 * time.Second)
}

// killHard kills the pod's process and deletes the pod without grace: nobody is told to stop sending first.
func (l *lab) killHard(pod string) {
	l.Helper()
	uid := l.kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	killed := 0
	for _, pid := range podProcesses(l.T, uid) {
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(comm)) == "app" {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				l.Fatal(err)
			}
			killed++
		}
	}
	if killed == 0 {
		l.Fatalf("pod %s has no process app", pod)
	}
	l.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
}

var podCgroup = regexp.MustCompile(`pod([0-9a-f_-]{36})`)

// podProcesses are the processes whose cgroup is the pod's.
func podProcesses(t *testing.T, uid string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // It has ended.
		}
		m := podCgroup.FindSubmatch(text)
		if m == nil || strings.ReplaceAll(string(m[1]), "_", "-") != uid {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
