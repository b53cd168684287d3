package main

import (
	"os"
	"testing"

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
	})
}
