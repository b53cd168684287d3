package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/replay"
	"github.com/tapedeck-io/tapedeck/internal/term"
)

func infoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "info TAPE",
		Short: "Show what a tape holds: where and when it was recorded, by which sources, and what they did not see",
		Long: `Where and when a tape was recorded, its marks, and its completeness: for each source the times in which it looked
and saw all (seen), looked and did not see all (missed, and why), or did not look (not looked: it was off, or had not
read all yet, or no recorder ran).`,
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
		state, err := s.State(c.Context(), replay.Moment{})
		if err != nil {
			return err
		}
		ledger, err := s.Ledger(c.Context())
		if err != nil {
			return err
		}
		v := infoOf(s, state, ledger)
		if *form != "table" {
			return printAs(c.OutOrStdout(), *form, v)
		}
		return v.print(c.OutOrStdout())
	}
	return c
}

// info is what `replay info` prints.
type info struct {
	Session  string       `json:"session"`
	Node     string       `json:"node"`
	Kernel   string       `json:"kernel"`
	Recorder string       `json:"recorder"`
	Sync     string       `json:"sync"`
	From     string       `json:"from"`
	FirstSeq uint64       `json:"first_seq"`
	To       string       `json:"to"`
	LastSeq  uint64       `json:"last_seq"`
	Seconds  float64      `json:"seconds"`
	Flows    uint64       `json:"flows"`
	Sources  []infoSource `json:"sources"`
	Marks    []infoMark   `json:"marks"`
}

type infoSource struct {
	Source    string         `json:"source"`
	Status    string         `json:"status"`
	Events    uint64         `json:"events"`
	Gaps      uint64         `json:"gaps"`
	Intervals []infoInterval `json:"intervals"`
}

type infoInterval struct {
	Looked  replay.Looked `json:"looked"`
	From    string        `json:"from"`
	To      string        `json:"to"`
	Seconds float64       `json:"seconds"`
	Why     string        `json:"why"`
	Count   *uint64       `json:"count"` // of lost facts, null where not known
	Seq     uint64        `json:"seq"`
}

type infoMark struct {
	Time string `json:"time"`
	Seq  uint64 `json:"seq"`
	Text string `json:"text"`
}

func infoOf(s *replay.Session, state *projections.State, ledger []replay.SourceLedger) info {
	h := s.Tape.Header()
	v := info{
		Session: h.SessionId, Node: h.Node, Kernel: h.Kernel, Recorder: h.ToolVersion, Sync: h.Sync,
		From: stamp(h.FirstNs), FirstSeq: h.FirstSeq, To: stamp(h.LastNs), LastSeq: h.LastSeq,
		Seconds: seconds(h.LastNs - h.FirstNs), Flows: state.Flows, Marks: []infoMark{},
	}
	for _, name := range slices.Sorted(maps.Keys(state.Sources)) {
		src := state.Sources[name]
		row := infoSource{Source: name, Status: src.Status(), Events: src.Events, Gaps: src.Gaps, Intervals: []infoInterval{}}
		for _, l := range ledger {
			if l.Source != name {
				continue
			}
			for _, in := range l.Intervals {
				row.Intervals = append(row.Intervals, intervalOf(in))
			}
		}
		v.Sources = append(v.Sources, row)
	}
	for _, m := range state.Marks {
		v.Marks = append(v.Marks, infoMark{stamp(m.SeenNs), m.Seq, m.Text})
	}
	return v
}

func intervalOf(in replay.Interval) infoInterval {
	v := infoInterval{in.Looked, stamp(in.FromNs), stamp(in.ToNs), seconds(in.ToNs - in.FromNs), in.Why, nil, in.Seq}
	if in.Count > 0 {
		v.Count = &in.Count
	}
	return v
}

func seconds(ns int64) float64 { return float64(ns/1e6) / 1e3 }

func (v info) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, a ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, term.Printable(fmt.Sprintf(format, a...)))
	}
	row("session", "%s", v.Session)
	row("node", "%s", v.Node)
	row("kernel", "%s", v.Kernel)
	row("recorder", "%s", v.Recorder)
	row("sync", "%s", v.Sync)
	row("from", "%s  seq:%d", v.From, v.FirstSeq)
	row("to", "%s  seq:%d  (%s)", v.To, v.LastSeq, time.Duration(v.Seconds*float64(time.Second)).Round(time.Millisecond))
	row("flows", "%d", v.Flows)
	fmt.Fprintln(w, "\nSOURCE\tSTATUS\tEVENTS\tGAPS")
	for _, src := range v.Sources {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", term.Printable(src.Source), src.Status, src.Events, src.Gaps)
	}
	v.printLedger(w)
	if len(v.Marks) > 0 {
		fmt.Fprintln(w, "\nMARK\tSEQ\tTEXT")
	}
	for _, m := range v.Marks {
		fmt.Fprintf(w, "%s\t%d\t%s\n", m.Time, m.Seq, term.Printable(fmt.Sprintf("%q", m.Text)))
	}
	return w.Flush()
}

// ledgerRows is how many intervals of a source the table shows; -o json has all.
const ledgerRows = 20

func (v info) printLedger(w io.Writer) {
	fmt.Fprintln(w, "\nSOURCE\tLOOKED\tFROM\tTO\tSECONDS\tLOST\tWHY")
	for _, src := range v.Sources {
		for i, in := range src.Intervals {
			if i == ledgerRows {
				fmt.Fprintf(w, "%s\t… and %d more: see -o json\n", term.Printable(src.Source), len(src.Intervals)-i)
				break
			}
			lost := ""
			if in.Count != nil {
				lost = fmt.Sprint(*in.Count)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.3f\t%s\t%s\n", term.Printable(src.Source), in.Looked, in.From, in.To,
				in.Seconds, lost, term.Printable(cmp.Or(in.Why, "-")))
		}
	}
}

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z") }
