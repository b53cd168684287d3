// Package e2e runs the recorder through the whole lab on the real one-node cluster of lab/, and compares what
// it writes with what Cilium's own tools print. It needs root and a node that is up: see `make e2e`.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lab is the node and the folder that the recorder writes.
type lab struct {
	*testing.T
	root    string // of the repository
	out     string
	session string
	log     *os.File
	cmd     *exec.Cmd
}

func start(t *testing.T) *lab {
	if os.Getenv("TAPEDECK_LAB") == "" {
		t.Skip("needs the lab's node: run `make e2e`")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "recorder.log"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, root: root, out: filepath.Join(dir, "out"), session: filepath.Join(dir, "session"), log: log}
	if _, err := l.try("lab/exec", "kubectl", "get", "namespace", "cca-dp"); err == nil {
		l.run("lab/steps", "clean")
	}
	t.Cleanup(func() {
		if l.cmd != nil {
			l.stop(syscall.SIGTERM)
		}
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("recorder's log:\n%s", text)
		}
	})
	return l
}

// try runs a command of the repository and returns what it printed on stdout.
func (l *lab) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(l.root, name), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(stderr.String()))
	}
	return string(out), err
}

func (l *lab) run(name string, args ...string) string {
	l.Helper()
	out, err := l.try(name, args...)
	if err != nil {
		l.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}

func (l *lab) kubectl(args ...string) string {
	l.Helper()
	return strings.TrimSpace(l.run("lab/exec", append([]string{"kubectl", "-n", "cca-dp"}, args...)...))
}

// record starts the recorder on the node and waits until its sources are up.
func (l *lab) record() {
	l.Helper()
	l.cmd = exec.Command(filepath.Join(l.root, "lab/exec"), filepath.Join(l.root, "bin/recorder"), "run",
		"--profile", "cca-datapath", "--out", l.out, "--session", l.session, "--keyframe-bytes", "65536")
	l.cmd.Stdout, l.cmd.Stderr = l.log, l.log
	if err := l.cmd.Start(); err != nil {
		l.Fatal(err)
	}
	l.eventually(30*time.Second, "all sources up", l.sourcesUp)
}

func (l *lab) sourcesUp() error {
	var s struct {
		Sources []struct{ Source, Status string }
	}
	if err := l.read("session.json", &s); err != nil {
		return err
	}
	for _, src := range s.Sources {
		if src.Source != "recorder" && src.Status != "up" {
			return errors.New(src.Source + " is " + src.Status)
		}
	}
	if len(s.Sources) < 7 {
		return errors.New("not all sources are listed")
	}
	return nil
}

func (l *lab) stop(sig syscall.Signal) {
	l.Helper()
	_ = l.cmd.Process.Signal(sig)
	done := make(chan error, 1)
	go func(c *exec.Cmd) { done <- c.Wait() }(l.cmd)
	select {
	case err := <-done:
		if sig == syscall.SIGTERM && err != nil {
			l.Errorf("recorder ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		_ = l.cmd.Process.Kill()
		<-done
		l.Error("recorder did not stop within 10 s")
	}
	l.cmd = nil
}

func (l *lab) read(file string, v any) error {
	b, err := os.ReadFile(filepath.Join(l.out, file))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// eventually polls until check passes; its last error tells why it did not.
func (l *lab) eventually(d time.Duration, what string, check func() error) {
	l.Helper()
	end := time.Now().Add(d)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			l.Fatalf("%s: not after %v: %v", what, d, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
