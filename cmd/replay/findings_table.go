package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/term"
)

// findingsTable prints a row for each finding, and beneath it what is the case, by which events, and what it means.
func findingsTable(out io.Writer, state *projections.State, list []*projections.Finding) error {
	file := state.FindingsFile(list)
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LEVEL\tRULE\tSINCE\tENDED\tLASTED\tSUBJECT")
	for _, f := range list {
		ended := "-"
		if !f.Lasts() {
			ended = stamp(f.EndedNs)
		}
		lasted := time.Duration(cmp.Or(f.EndedNs, state.SeenNs) - f.SinceNs).Round(time.Millisecond)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Level(), f.Rule, stamp(f.SinceNs), ended, lasted, term.Printable(f.Subject))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "at %s (seq:%d): %d open, %d ended", stamp(state.SeenNs), state.Seq, len(file.Open), len(file.Ended))
	if n := file.Omitted; n > 0 {
		fmt.Fprintf(&b, "; %d that ended earlier are not kept", n)
	}
	b.WriteString("\n")
	if len(list) > 0 {
		rows := strings.SplitAfter(table.String(), "\n")
		b.WriteString("\n" + rows[0])
		for i, f := range list {
			b.WriteString(rows[i+1])
			b.WriteString(paragraph(f.Text + " " + seqs(f.Events)))
			b.WriteString(paragraph("→ " + f.Means()))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func seqs(list []uint64) string {
	var texts []string
	for _, seq := range list {
		texts = append(texts, fmt.Sprintf("seq:%d", seq))
	}
	return "[" + strings.Join(texts, " ") + "]"
}

// paragraph is a sentence beneath a row, broken between words.
func paragraph(text string) string {
	const indent, width = "    ", 110
	return term.Wrap(term.Printable(text), indent, indent, width)
}
