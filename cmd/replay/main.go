// Command replay rebuilds recorded sessions, at any moment, without a cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return misused{err} })
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "replay:", err)
	if errors.As(err, &misused{}) {
		return exitMisused
	}
	return exitFailed
}

// misused is an error of the command line itself.
type misused struct{ error }

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

// moment is the value of --at.
type moment struct{ replay.Moment }

func (m *moment) Set(s string) (err error) {
	m.Moment, err = replay.ParseMoment(s)
	return err
}

func (m *moment) Type() string { return "moment" }

const atUsage = "the moment: RFC 3339, +90s from the start, -30s from the end, seq:N or mark:TEXT (default: the end)"
