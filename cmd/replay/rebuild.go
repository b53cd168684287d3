package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

func rebuildCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "rebuild TAPE --out DIR",
		Short:             "Make all files as they were at a moment",
		Example:           `  replay rebuild incident.tape --at 2026-12-01T10:37:06Z --out /tmp/then`,
		Args:              oneTape,
		ValidArgsFunction: completeTape,
	}
	at := atFlag(c)
	out := c.Flags().String("out", "", "folder for the files")
	_ = c.MarkFlagRequired("out")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		state, _, err := stateAt(c, s, at.Moment)
		if err != nil {
			return err
		}
		folder, err := projections.OpenFolder(*out)
		if err != nil {
			return err
		}
		if err := folder.Write(state.Files()); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "files are in %s\n", *out)
		return nil
	}
	return c
}
