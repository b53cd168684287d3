package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/replay"
	"github.com/tapedeck-io/tapedeck/internal/replay/export"
	"github.com/tapedeck-io/tapedeck/internal/replay/facts"
	"github.com/tapedeck-io/tapedeck/internal/replay/timeline"
)

// exporter writes a session in one format and says in words what it wrote; a query of facts is for those that pick.
type exporter struct {
	name, about string
	picks       bool
	write       func(context.Context, io.Writer, *replay.Session, facts.Query) (string, error)
}

var exporters = []exporter{
	{"hubble-jsonl", "flows, a line each, for `hubble observe --input-file`", true, exportHubble},
	{"cloudevents", "events, a line each, in CloudEvents 1.0's JSON format", true, exportCloudEvents},
	{"perfetto", "a trace for ui.perfetto.dev: Services as tracks, their backends as slices", false, exportPerfetto},
	{"csv", "the timeline's rows", false, exportCSV},
}

func exportCommand() *cobra.Command {
	var names, lines []string
	for _, e := range exporters {
		names = append(names, e.name)
		lines = append(lines, fmt.Sprintf("  %-13s %s", e.name, e.about))
	}
	c := &cobra.Command{
		Use:   "export FORMAT TAPE",
		Short: "Write a tape for other programs: " + strings.Join(names, ", "),
		Long: "Write a tape for other programs. The formats:\n\n" + strings.Join(lines, "\n") + `

hubble-jsonl and cloudevents take the filters of replay events.`,
		Example: `  replay export hubble-jsonl incident.tape --pod shop/cart | hubble observe --input-file - -o compact
  replay export perfetto incident.tape -o incident.pftrace`,
		Args: formatAndTape(names),
		ValidArgsFunction: func(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return names, cobra.ShellCompDirectiveNoFileComp
			}
			return completeTape(c, args[1:], text)
		},
	}
	out := c.Flags().StringP("output", "o", "", "file to write (default: stdout)")
	pick := addPickFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		e := exporters[slices.Index(names, args[0])]
		if !e.picks && pick.given() {
			return cli.Misuse(fmt.Errorf("%s is of a whole tape: leave the filters away", e.name))
		}
		s, err := open(c, args[1])
		if err != nil {
			return err
		}
		defer s.Close()
		q, err := pick.query(s)
		if err != nil {
			return err
		}
		var said string
		write := func(w io.Writer) error {
			said, err = e.write(c.Context(), w, s, q)
			return err
		}
		err = writeOutput(c, *out, write)
		if err == nil && said != "" {
			fmt.Fprintln(c.ErrOrStderr(), said)
		}
		return err
	}
	return c
}

// writeOutput writes to stdout, or to a file that is there when it is whole. What is no plain file, as /dev/null or a
// pipe, is written to as it is.
func writeOutput(c *cobra.Command, path string, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return write(c.OutOrStdout())
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	return journal.WriteAtomic(path, write)
}

func formatAndTape(names []string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && !slices.Contains(names, args[0]):
			return cli.Misuse(fmt.Errorf("format %s: want one of %s", args[0], strings.Join(names, ", ")))
		case len(args) != 2:
			return cli.Misuse(errors.New("name a format, one of " + strings.Join(names, ", ") + ", and one tape or session folder"))
		}
		return nil
	}
}

func exportHubble(ctx context.Context, w io.Writer, s *replay.Session, q facts.Query) (string, error) {
	n, err := export.HubbleJSONL(ctx, w, s.Tape, q)
	said := fmt.Sprintf("%d flows", n.Flows)
	if n.Cut > 0 {
		said += fmt.Sprintf("; %d of them without their HTTP headers, to keep to the line's length that hubble reads", n.Cut)
	}
	if n.LeftOut > 0 {
		said += fmt.Sprintf("; %d flows left out: longer than a line that hubble reads", n.LeftOut)
	}
	return said, err
}

func exportCloudEvents(ctx context.Context, w io.Writer, s *replay.Session, q facts.Query) (string, error) {
	n, err := export.CloudEvents(ctx, w, s.Tape, q)
	return fmt.Sprintf("%d events", n), err
}

func exportPerfetto(ctx context.Context, w io.Writer, s *replay.Session, _ facts.Query) (string, error) {
	return "", export.Perfetto(ctx, w, s.Tape)
}

func exportCSV(ctx context.Context, w io.Writer, s *replay.Session, _ facts.Query) (string, error) {
	return "", timeline.WriteCSV(ctx, w, s.Tape, timeline.Filter{})
}
