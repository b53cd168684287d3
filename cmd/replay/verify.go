package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/replay/verify"
	"github.com/tapedeck-io/tapedeck/internal/term"
)

func verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify TAPE",
		Short: "Check that a tape is whole and as it was written; exit 1 where it is not",
		Long: `Read a tape from end to end: its checksums, the SHA-256 over all of it, holes in the positions and in what each
source counted, repeated ids, and what this version cannot read. A tape that was changed on purpose, index and all,
has another SHA-256 than its copies.`,
		Args:              oneTape,
		ValidArgsFunction: completeTape,
	}
	form := formatFlag(c, "table", "table", "json", "yaml")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		r, err := verify.Tape(c.Context(), s.Tape)
		if err != nil {
			return err
		}
		if *form == "table" {
			err = printChecks(c.OutOrStdout(), r)
		} else {
			err = printAs(c.OutOrStdout(), *form, r)
		}
		if err == nil && !r.Whole {
			err = errNotWhole
		}
		return err
	}
	return c
}

var errNotWhole = errors.New("the tape is not whole")

func printChecks(out io.Writer, r *verify.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tRESULT\tSEEN")
	for _, c := range r.Checks {
		result := "whole"
		if !c.Whole {
			result = "NOT WHOLE"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Name, result, term.Printable(c.Seen))
		for _, p := range c.Problems {
			fmt.Fprintf(w, "\t\t! %s\n", term.Printable(p))
		}
		if c.More > 0 {
			fmt.Fprintf(w, "\t\t! and %d more\n", c.More)
		}
	}
	return w.Flush()
}
