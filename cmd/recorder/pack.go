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
	session := sessionFlag(c.Flags())
	out := c.Flags().StringP("output", "o", "", "the tape to write")
	_ = c.MarkFlagRequired("output")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := recorder.Pack(c.Context(), *session, *out); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "packed %s\n", *out)
		return nil
	}
	return c
}
