package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/replay"
)

func diffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "diff TAPE --from MOMENT [--to MOMENT]",
		Short: "Show what changed between two moments: fields of files, slots, backends, connections, endpoints",
		Long: `Show what changed between two moments: fields of files, and beneath them slots, backends, connections,
endpoints and whatever else was recorded. Exit code 0: no difference, 1: differences found, 2: misused.`,
		Example: `  replay diff incident.tape --from 10:37:06 --to 10:37:09
  replay diff incident.tape --from mark:before --to mark:after -o diff`,
		Args:              oneTape,
		ValidArgsFunction: completeTape,
	}
	from := momentFlag(c, "from", "the first moment: "+replay.MomentForms)
	to := momentFlag(c, "to", "the second moment (default: the end)")
	format := formatFlag(c, "table", "table", "diff", "json", "yaml")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !c.Flags().Changed("from") {
			return cli.Misuse(errors.New("say --from which moment"))
		}
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		var states [2]*projections.State
		for i, m := range []*moment{from, to} {
			if states[i], _, err = stateAt(c, s, m.Moment); err != nil {
				return err
			}
		}
		d := replay.Compare(states[0], states[1])
		switch *format {
		case "table":
			err = d.Table(c.OutOrStdout())
		case "diff":
			err = d.Unified(c.OutOrStdout())
		default:
			err = printAs(c.OutOrStdout(), *format, d)
		}
		if err == nil && !d.Empty() {
			err = cli.ErrFound
		}
		return err
	}
	return c
}
