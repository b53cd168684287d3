package main

import (
	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
)

func markCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "mark TEXT",
		Short:   "Put a mark into the running session",
		Long:    "Put a mark into the running session. The mark \"svc\" takes the baseline of svc.json anew.",
		Example: `  recorder mark "before the upgrade"`,
		Args:    oneArg,
	}
	session := c.Flags().String("session", defaultSession, "folder of the running session")
	c.RunE = func(c *cobra.Command, args []string) error { return recorder.Mark(c.Context(), *session, args[0]) }
	return c
}
