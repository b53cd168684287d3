package main

import (
	"fmt"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
	"github.com/tapedeck-io/tapedeck/internal/term"
)

func checkCommand() *cobra.Command {
	var a aimFlags
	c := &cobra.Command{
		Use:   "check",
		Short: "Show what each source would see here, and how to mend what is missing",
		Args:  noArgs,
	}
	f := c.Flags()
	a.add(c)
	session := sessionFlag(f)
	out := f.String("out", "", "folder for the files (default: the profile's, else "+defaultOut+")")
	c.RunE = func(c *cobra.Command, _ []string) error {
		o := recorder.Options{Out: *out, Session: *session, Log: slog.New(slog.DiscardHandler)}
		if err := a.load(&o); err != nil {
			return err
		}
		o.Out = outFolder(o)
		missing := false
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		for _, f := range recorder.Check(c.Context(), o) {
			if f.Err != nil {
				missing = true
				// The sentence names the thing itself.
				fmt.Fprintf(w, "MISSING\t%s\t%s\n", f.Source, term.Printable(f.Err.Error()))
				continue
			}
			fmt.Fprintf(w, "ok\t%s\t%s\t%s\n", f.Source, term.Printable(f.Thing), term.Printable(f.Seen))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if missing {
			return cli.ErrFound
		}
		return nil
	}
	return c
}
