// Command replay rebuilds recorded sessions, at any moment, without a cluster.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
	"github.com/tapedeck-io/tapedeck/internal/replay"
)

func main() { os.Exit(Main()) }

// Main runs the command line and returns the exit code.
func Main() int {
	root := &cobra.Command{
		Use:     "replay",
		Short:   "Rebuild recorded sessions, at any moment, without a cluster",
		Version: recorder.Version,
	}
	root.AddCommand(infoCommand(), rebuildCommand(), reportCommand())
	root.AddCommand(stateCommand(), diffCommand(), explainCommand(), playCommand())
	root.AddCommand(eventsCommand(), verifyCommand(), exportCommand())
	root.AddCommand(timelineCommand(), findingsCommand())
	return cli.Main(root)
}

// oneTape checks that one tape is named.
func oneTape(c *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(c, args); err != nil {
		return cli.Misuse(errors.New("name one tape or session folder"))
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
