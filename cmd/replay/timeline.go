package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/cli"
	"github.com/tapedeck-io/tapedeck/internal/replay"
	"github.com/tapedeck-io/tapedeck/internal/replay/timeline"
	"sigs.k8s.io/yaml"
)

func timelineCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "timeline TAPE",
		Short: "Show causes and effects: pods → EndpointSlice → agent → map → traffic, with delays",
		Long: `One row for each cause and effect, in order of time: a Service's pods, its EndpointSlices, what the agent wants,
the slots in the map, the first packets and sockets to a new backend, failures and the recovery from them; and the
gaps in which a source did not see all.

TIME is when it happened by the source's own clock (the agent's, a flow's, a log's) where it has one, else when the
recorder saw it. AFTER is the time since the row that caused it: the latest earlier row, of the same Service and
backend, that can have; of a recovery, the first of the failures. A row without a known cause has none. SEQ and CAUSE are the events of both on the tape; they
are stored source by source, so a cause may stand a little later there. Deployments are not recorded: how many pods
there are is counted from the pods.`,
		Example: `  replay timeline incident.tape --service shop/cart --since 10:37:00 --until 10:38:30
  replay timeline incident.tape --kind failure --kind recovered -o jsonl`,
		Args:              oneTape,
		ValidArgsFunction: completeTape,
	}
	selected := timelineFlags(c)
	form := formatFlag(c, "table", "table", "json", "jsonl", "yaml", "csv")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := open(c, args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		filter, err := selected(s)
		if err != nil {
			return err
		}
		return printTimeline(c, s, *form, filter)
	}
	return c
}

// timelineFlags adds the flags that select rows, and returns what reads them.
func timelineFlags(c *cobra.Command) func(*replay.Session) (timeline.Filter, error) {
	services := c.Flags().StringArray("service", nil, "rows of this Service, as namespace/name; can be repeated")
	kinds := c.Flags().StringSlice("kind", nil, "rows of this kind; can be repeated: "+rowKinds())
	since := momentFlag(c, "since", "rows from this moment on: "+replay.MomentForms)
	until := momentFlag(c, "until", "rows up to this moment")
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(strings.Split(rowKinds(), ", "), cobra.ShellCompDirectiveNoFileComp))
	return func(s *replay.Session) (f timeline.Filter, err error) {
		for _, name := range *services {
			if namespace, rest, ok := strings.Cut(name, "/"); !ok || namespace == "" || rest == "" || strings.Contains(rest, "/") {
				return f, cli.Misuse(fmt.Errorf("--service %q: want namespace/name", name))
			}
		}
		f.Services = *services
		for _, k := range *kinds {
			if !slices.Contains(timeline.Kinds, timeline.Kind(k)) {
				return f, cli.Misuse(fmt.Errorf("--kind %q: want one of %s", k, rowKinds()))
			}
			f.Kinds = append(f.Kinds, timeline.Kind(k))
		}
		for flag, m := range map[string]*moment{"since": since, "until": until} {
			if !c.Flags().Changed(flag) {
				continue
			}
			at, err := s.Position(c.Context(), m.Moment)
			if err != nil {
				return f, fmt.Errorf("--%s: %w", flag, err)
			}
			if flag == "since" {
				f.SinceNs = at.Ns
			} else {
				f.UntilNs = at.Ns
			}
		}
		return f, nil
	}
}

func rowKinds() string {
	var names []string
	for _, k := range timeline.Kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// printTimeline prints rows as they are found, none is kept.
func printTimeline(c *cobra.Command, s *replay.Session, form string, filter timeline.Filter) error {
	w := c.OutOrStdout()
	if form == "csv" {
		return timeline.WriteCSV(c.Context(), w, s.Tape, filter)
	}
	printer := map[string]func(io.Writer) rowPrinter{
		"table": func(w io.Writer) rowPrinter { return newRowTable(w) },
		"json":  func(w io.Writer) rowPrinter { return &rowJSON{w: w} },
		"jsonl": func(w io.Writer) rowPrinter { return rowLines{json.NewEncoder(w)} },
		"yaml":  func(w io.Writer) rowPrinter { return &rowYAML{w: w} },
	}[form](w)
	rows := 0
	list, err := timeline.Of(c.Context(), s.Tape, filter, func(r timeline.Row) error {
		rows++
		return printer.add(r)
	})
	if err != nil {
		return err
	}
	if rows == 0 {
		fmt.Fprintln(c.ErrOrStderr(), "replay: no row is selected")
	}
	return printer.end(list)
}

type rowPrinter interface {
	add(timeline.Row) error
	end([]timeline.Convergence) error
}

// rowJSON prints one object: rows and convergence.
type rowJSON struct {
	w    io.Writer
	rows int
}

func (p *rowJSON) add(r timeline.Row) error {
	before := ",\n    "
	if p.rows == 0 {
		before = "{\n  \"rows\": [\n    "
	}
	p.rows++
	return p.value(before, r)
}

func (p *rowJSON) value(before string, v any) error {
	b, err := plainJSON(v)
	if err == nil {
		_, err = fmt.Fprintf(p.w, "%s%s", before, b)
	}
	return err
}

func (p *rowJSON) end(list []timeline.Convergence) error {
	before := "\n  ],\n  \"convergence\": "
	if p.rows == 0 {
		before = "{\n  \"rows\": [],\n  \"convergence\": "
	}
	if list == nil {
		list = []timeline.Convergence{}
	}
	if err := p.value(before, list); err != nil {
		return err
	}
	_, err := fmt.Fprint(p.w, "\n}\n")
	return err
}

// rowLines prints an object for each row, and for each Service's figures one with the key convergence.
type rowLines struct{ e *json.Encoder }

func (p rowLines) add(r timeline.Row) error {
	p.e.SetEscapeHTML(false)
	return p.e.Encode(r)
}

func (p rowLines) end(list []timeline.Convergence) error {
	for _, v := range list {
		if err := p.e.Encode(map[string]timeline.Convergence{"convergence": v}); err != nil {
			return err
		}
	}
	return nil
}

// rowYAML prints what rowJSON prints.
type rowYAML struct {
	w    io.Writer
	rows int
}

func (p *rowYAML) add(r timeline.Row) error {
	if p.rows++; p.rows == 1 {
		if _, err := fmt.Fprintln(p.w, "rows:"); err != nil {
			return err
		}
	}
	return p.value([]timeline.Row{r})
}

func (p *rowYAML) value(v any) error {
	b, err := yaml.Marshal(v)
	if err == nil {
		_, err = p.w.Write(b)
	}
	return err
}

func (p *rowYAML) end(list []timeline.Convergence) error {
	if p.rows == 0 {
		if _, err := fmt.Fprintln(p.w, "rows: []"); err != nil {
			return err
		}
	}
	if list == nil {
		list = []timeline.Convergence{}
	}
	return p.value(map[string]any{"convergence": list})
}

func plainJSON(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return []byte(strings.TrimSuffix(b.String(), "\n")), err
}
