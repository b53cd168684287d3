// Package cli runs a command line: signals, where errors go, and exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/term"
	xterm "golang.org/x/term"
)

// Exit codes.
const (
	done    = 0
	failed  = 1 // could not, or found a difference
	misused = 2
)

// Misused is an error of the command line itself.
type Misused struct{ error }

// Misuse makes a Misused of err; nil stays nil.
func Misuse(err error) error {
	if err == nil {
		return nil
	}
	return Misused{err}
}

// ErrFound ends a command that has printed what it found: a difference, or something missing.
var ErrFound = errors.New("found a difference")

// Main runs the program's command line until it is done, or told to stop, and returns the exit code.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return run(ctx, root, os.Args[1:], shown(os.Stdout), shown(os.Stderr))
}

// shown is where output goes. What a tape or a cluster has in it must not steer a terminal.
func shown(f *os.File) io.Writer {
	if xterm.IsTerminal(int(f.Fd())) {
		return term.NewWriter(f)
	}
	return f
}

func run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Misused{err} })
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return done
	case errors.Is(err, ErrFound):
		return failed
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	if errors.As(err, &Misused{}) || misusedByCobra(err) {
		return misused
	}
	return failed
}

// misusedByCobra knows the library's own complaints by their text; it has no type for them.
func misusedByCobra(err error) bool {
	for _, begins := range []string{"required flag(s) ", "unknown command ", "if any flags in the group "} {
		if strings.HasPrefix(err.Error(), begins) {
			return true
		}
	}
	return false
}
