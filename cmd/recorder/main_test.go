package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"recorder": func() { os.Exit(Main()) }})
}

func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("KUBECONFIG", "")
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"waitfor": waitFor},
	})
}

// waitFor FILE PATTERN N waits until the file has N matches of the pattern, or more.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: waitfor FILE PATTERN N")
	}
	pattern := regexp.MustCompile(args[1])
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	var text []byte
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if text, err = os.ReadFile(args[0]); err == nil && len(pattern.FindAll(text, -1)) >= n {
			return
		}
	}
	ts.Fatalf("%s has not %d times %q: %s (%v)", args[0], n, args[1], text, err)
}
