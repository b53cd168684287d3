package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/replay/facts"
	"github.com/tapedeck-io/tapedeck/internal/term"
	"sigs.k8s.io/yaml"
)

func eventsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "events TAPE",
		Short: "Print what was recorded, fact by fact, picked by source, kind, time and object",
		Long: `Print what was recorded, one fact a line: an object, a map's entry, a flow, a line of a log.

A filter given again, or with commas, takes either; different filters must all match. Of an event that holds many
facts only those that match are printed. --since and --until go by when the recorder saw it; the time that is
printed is the source's own where it has one. In compact form + is there now or has changed, - is gone, = is one
of a whole list.`,
		Example: `  replay events incident.tape --service shop/cart --since 'mark:rollout' --until +90s
  replay events incident.tape --kind maps --map 'cilium_lb4_*' -o jsonl
  replay events incident.tape --verdict DROPPED --not --ip 10.0.0.0/8 --last 20`,
		Args:              oneTape,
		ValidArgsFunction: completeTape,
	}
	pick := addPickFlags(c)
	form := formatFlag(c, "compact", "compact", "table", "json", "jsonl", "yaml")
	c.RunE = func(c *cobra.Command, args []string) error {
		out := bufio.NewWriter(c.OutOrStdout())
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		q, err := pick.query(s)
		if err != nil {
			return err
		}
		p := newFactPrinter(out, *form)
		err = facts.Stream(c.Context(), s.Tape, q, p.print)
		return errors.Join(err, p.close(), out.Flush())
	}
	return c
}

// factPrinter prints facts in one form.
type factPrinter struct {
	out   io.Writer
	print func(*facts.Fact, *facts.Book) error
	n     int
	end   string
}

func newFactPrinter(out io.Writer, form string) *factPrinter {
	p := &factPrinter{out: out}
	switch form {
	case "table":
		p.print = p.compact
		fmt.Fprintf(out, factColumns, "TIME", "SEQ", "KIND", "", "FACT")
	case "jsonl":
		p.print = func(f *facts.Fact, _ *facts.Book) error { return p.json(f, "", "\n") }
	case "json":
		fmt.Fprint(out, "[")
		p.end = "\n]\n"
		p.print = func(f *facts.Fact, _ *facts.Book) error {
			if p.n++; p.n > 1 {
				return p.json(f, ",\n", "")
			}
			return p.json(f, "\n", "")
		}
	case "yaml":
		p.print = p.yaml
	default:
		p.print = p.compact
	}
	return p
}

// factColumns: time, position, kind, what it does, text. An event's facts have one position.
const factColumns = "%-24s  %7s  %-13s %1s %s\n"

func (p *factPrinter) compact(f *facts.Fact, b *facts.Book) error {
	sign := map[facts.Op]string{facts.Upsert: "+", facts.Delete: "-", facts.Snapshot: "="}[f.Op]
	_, err := fmt.Fprintf(p.out, factColumns, stamp(f.WhenNs()), fmt.Sprint(f.Seq), f.Kind, sign, term.Printable(f.Text(b)))
	return err
}

func (p *factPrinter) json(f *facts.Fact, before, after string) error {
	line, err := f.JSON()
	if err != nil {
		return fmt.Errorf("print fact %d of seq %d: %w", f.N, f.Seq, err)
	}
	_, err = fmt.Fprintf(p.out, "%s%s%s", before, line, after)
	return err
}

func (p *factPrinter) yaml(f *facts.Fact, _ *facts.Book) error {
	line, err := f.JSON()
	if err == nil {
		line, err = yaml.JSONToYAML(line)
	}
	if err != nil {
		return fmt.Errorf("print fact %d of seq %d: %w", f.N, f.Seq, err)
	}
	_, err = fmt.Fprintf(p.out, "---\n%s", line)
	return err
}

func (p *factPrinter) close() error {
	_, err := io.WriteString(p.out, p.end)
	return err
}
