// Command replay rebuilds recorded sessions, at any moment, without a cluster.
package main

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
	"github.com/tapedeck-io/tapedeck/internal/recorder"
	"github.com/tapedeck-io/tapedeck/internal/replay"
)

// Exit codes: done, could not, misused.
const (
	exitFailed  = 1
	exitMisused = 2
)

func main() { os.Exit(Main()) }

// Main runs the command line and returns the exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "replay",
		Short:         "Rebuild recorded sessions, at any moment, without a cluster",
		Version:       recorder.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(infoCommand(), rebuildCommand(), reportCommand())
	root.AddCommand(stateCommand(), diffCommand(), explainCommand(), playCommand())
	root.AddCommand(eventsCommand(), verifyCommand(), exportCommand())
	root.AddCommand(timelineCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return misused{err} })
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, errDifferent) {
		return exitFailed
	}
	fmt.Fprintln(stderr, "replay:", err)
	if errors.As(err, &misused{}) || misusedByCobra(err) {
		return exitMisused
	}
	return exitFailed
}

// misusedByCobra knows the library's own complaints by their text; it has no type for them.
func misusedByCobra(err error) bool {
	return strings.HasPrefix(err.Error(), "required flag(s) ") || strings.HasPrefix(err.Error(), "unknown command ") || strings.HasPrefix(err.Error(), "if any flags in the group ")
}

// misused is an error of the command line itself.
type misused struct{ error }

// errDifferent ends a command that printed a difference.
var errDifferent = errors.New("found a difference")

// oneTape checks that one tape is named.
func oneTape(c *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(c, args); err != nil {
		return misused{errors.New("name one tape or session folder")}
	}
	return nil
}

// open opens the named tape and says where it is torn.
func open(c *cobra.Command, path string) (*replay.Session, error) {
	s, err := replay.Open(c.Context(), path)
	if err != nil {
		return nil, err
	}
	if torn := s.Tape.Torn(); torn != nil {
		fmt.Fprintln(c.ErrOrStderr(), "replay:", torn)
	}
	return s, nil
}
