package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
)

func packCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "pack -o FILE.tape",
		Short:   "Write the session, running or stopped, to one file that replay reads anywhere",
		Example: `  recorder pack --session /var/lib/tapedeck/session -o incident.tape`,
		Args:    noArgs,
	}
	session := c.Flags().String("session", defaultSession, "folder of the session")
	out := c.Flags().StringP("output", "o", "", "the tape to write, - for standard output")
	force := c.Flags().Bool("force", false, "replace the file if it is there")
	_ = c.MarkFlagRequired("output")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *out == "-" {
			return recorder.PackTo(c.Context(), *session, c.OutOrStdout())
		}
		if err := recorder.Pack(c.Context(), *session, *out, *force); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "packed %s\n", *out)
		return nil
	}
	return c
}
