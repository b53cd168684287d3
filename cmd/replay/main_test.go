package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"replay": func() { os.Exit(Main()) }})
}

// TestStories runs the stories in testdata. $LAB is the recorded tape of the lab's eight steps, $ROLLING that of a
// rolling update, and $TIMELINE its timeline.
func TestStories(t *testing.T) {
	recorded, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("LAB", filepath.Join(recorded, "lab.tape"))
			e.Setenv("ROLLING", filepath.Join(recorded, "rolling.tape"))
			e.Setenv("TIMELINE", filepath.Join(recorded, "rolling.timeline.txt"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("HUBBLE", os.Getenv("TAPEDECK_HUBBLE"))
			return nil
		},
		Condition: func(name string) (bool, error) {
			return name == "hubble" && os.Getenv("TAPEDECK_HUBBLE") != "", nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"cutoff": cutOff, "flipbit": flipBit, "faulty": faulty},
	})
}

// cutOff IN OUT PERCENT copies the beginning of a file.
func cutOff(ts *testscript.TestScript, neg bool, args []string) {
	changed(ts, neg, args, func(b []byte, n int) []byte { return b[:n] })
}

// flipBit IN OUT PERCENT copies a file with one bit changed, at that part of its length; -N is N bytes before its end.
func flipBit(ts *testscript.TestScript, neg bool, args []string) {
	changed(ts, neg, args, func(b []byte, n int) []byte { b[n] ^= 1; return b })
}

func changed(ts *testscript.TestScript, neg bool, args []string, change func([]byte, int) []byte) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: cutoff|flipbit IN OUT PERCENT|-BYTES")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	b, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	if n < 0 {
		n += len(b)
	} else {
		n = len(b) * n / 100
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), change(b, n), 0o600))
}
