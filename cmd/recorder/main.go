// Command recorder records what decides where a connection to a Service goes on a node that runs Cilium
// without kube-proxy, and keeps files that show it.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
)

func main() { os.Exit(Main()) }

// Main runs the command line and returns the exit code.
func Main() int {
	root := &cobra.Command{
		Use:     "recorder",
		Short:   "Record the service datapath of a node that runs Cilium without kube-proxy",
		Version: recorder.Version,
	}
	root.AddCommand(runCommand(), checkCommand(), markCommand(), packCommand())
	return cli.Main(root)
}

// noArgs and oneArg are cobra's checks, with the exit code of misuse.
func noArgs(c *cobra.Command, args []string) error { return cli.Misuse(cobra.NoArgs(c, args)) }
func oneArg(c *cobra.Command, args []string) error { return cli.Misuse(cobra.ExactArgs(1)(c, args)) }
