package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func reportCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "report TAPE",
		Short:             "Print report.txt as it was at a moment",
		Args:              oneTape,
		ValidArgsFunction: completeTape,
	}
	at := atFlag(c)
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
		for _, f := range state.Files() {
			if f.Name == "report.txt" {
				_, err := c.OutOrStdout().Write(f.Data)
				return err
			}
		}
		return errors.New("no report: the session was recorded without a profile; see session.json")
	}
	return c
}
