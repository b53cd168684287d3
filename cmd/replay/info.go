package main

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/replay"
)

func infoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "info TAPE",
		Short:             "Show what a tape holds: where and when it was recorded, and by which sources",
		Args:              oneTape,
		ValidArgsFunction: completeTape,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		state, err := s.State(c.Context(), replay.Moment{})
		if err != nil {
			return err
		}
		h := s.Tape.Header()
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		row := func(name, format string, a ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", a...) }
		row("session", "%s", h.SessionId)
		row("node", "%s", h.Node)
		row("kernel", "%s", h.Kernel)
		row("recorder", "%s", h.ToolVersion)
		row("sync", "%s", h.Sync)
		row("from", "%s  seq:%d", stamp(h.FirstNs), h.FirstSeq)
		row("to", "%s  seq:%d  (%s)", stamp(h.LastNs), h.LastSeq, time.Duration(h.LastNs-h.FirstNs).Round(time.Millisecond))
		row("flows", "%d", state.Flows)
		fmt.Fprintln(w, "\nSOURCE\tSTATUS\tEVENTS\tGAPS")
		for _, name := range slices.Sorted(maps.Keys(state.Sources)) {
			src := state.Sources[name]
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", name, src.Status(), src.Events, src.Gaps)
		}
		for _, m := range state.Marks {
			row("\nmark", "%s  seq:%d  %q", stamp(m.SeenNs), m.Seq, m.Text)
		}
		return w.Flush()
	}
	return c
}

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z") }
