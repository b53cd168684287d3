// Command recorder records what decides where a connection to a Service goes on a node that runs Cilium
// without kube-proxy, and keeps files that show it.
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
		Use:           "recorder",
		Short:         "Record the service datapath of a node that runs Cilium without kube-proxy",
		Version:       recorder.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(runCommand(), checkCommand(), markCommand(), packCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return misused{err} })
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errChecked):
		return exitFailed
	}
	fmt.Fprintln(stderr, "recorder:", err)
	if errors.As(err, &misused{}) {
		return exitMisused
	}
	return exitFailed
}

// misused is an error of the command line itself.
type misused struct{ error }

// noArgs and oneArg are cobra's checks, with our exit code.
func noArgs(c *cobra.Command, args []string) error { return asMisused(cobra.NoArgs(c, args)) }
func oneArg(c *cobra.Command, args []string) error { return asMisused(cobra.ExactArgs(1)(c, args)) }

func asMisused(err error) error {
	if err == nil {
		return nil
	}
	return misused{err}
}
