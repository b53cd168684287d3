package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/term"
)

// Table prints the difference for people: the files' fields, and beneath them the things.
func (d *Diff) Table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "from\t%s\tseq:%d\nto\t%s\tseq:%d\n", d.From.Time, d.From.Seq, d.To.Time, d.To.Seq)
	if len(d.Files) > 0 {
		fmt.Fprintf(w, "\nFILE\tFIELD\tFROM\tTO\n")
	}
	for _, c := range d.Files {
		WriteFields(w, c)
	}
	kind := ""
	for _, c := range d.Things {
		if c.Kind != kind {
			kind = c.Kind
			fmt.Fprintf(w, "\n%s\n", strings.ToUpper(kind))
		}
		fmt.Fprintf(w, "%s %s\t%s\n", opSign[c.Op], term.Printable(c.Name), term.Printable(c.text()))
	}
	return w.Flush()
}

var opSign = map[string]string{"added": "+", "removed": "-", "changed": "~"}

// WriteFields prints a row for each field of a file that changed, in cells for a tabwriter.
func WriteFields(w io.Writer, c Change) {
	name := c.Name
	if c.Op != "changed" {
		name += " " + c.Op
	}
	for _, f := range c.Fields {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, term.Printable(f.Field), cell(f.From), cell(f.To))
	}
}

func cell(v *string) string {
	if v == nil {
		return "-"
	}
	return term.Printable(*v)
}

// text is what there is to say of a thing: its fields when it came or went, else those that changed.
func (c Change) text() string {
	var texts []string
	for _, f := range c.Fields {
		switch c.Op {
		case "added":
			texts = append(texts, f.Field+"="+*f.To)
		case "removed":
			texts = append(texts, f.Field+"="+*f.From)
		default:
			texts = append(texts, f.Field+": "+f.text())
		}
	}
	return strings.Join(texts, "  ")
}

// text is a field before and after; of a list, what came and what went.
func (f FieldChange) text() string {
	from, to := split(f.From), split(f.To)
	if len(from) < 2 && len(to) < 2 {
		return fmt.Sprintf("%s → %s", cmp.Or(strings.Join(from, ""), "none"), cmp.Or(strings.Join(to, ""), "none"))
	}
	var texts []string
	for _, v := range from {
		if !slices.Contains(to, v) {
			texts = append(texts, "-"+v)
		}
	}
	for _, v := range to {
		if !slices.Contains(from, v) {
			texts = append(texts, "+"+v)
		}
	}
	return strings.Join(texts, ", ")
}

func split(v *string) []string {
	if v == nil {
		return nil
	}
	return strings.Split(*v, ", ")
}

// Unified prints the difference as `diff -u` does: each file, then each kind of thing as a list with a line for each.
func (d *Diff) Unified(w io.Writer) error {
	out := term.NewWriter(w) // JSON leaves some characters as they are that steer a terminal
	from, to := d.fromState.Files(), d.toState.Files()
	for i := range from {
		if from[i].Name != "session.json" && i < len(to) {
			if err := d.unified(out, from[i].Name, from[i].Data, to[i].Data); err != nil {
				return err
			}
		}
	}
	before, after := lists(d.fromState.Things()), lists(d.toState.Things())
	kind := ""
	for _, c := range d.Things {
		if c.Kind == kind {
			continue
		}
		kind = c.Kind
		if err := d.unified(out, kind, before[kind], after[kind]); err != nil {
			return err
		}
	}
	return nil
}

func (d *Diff) unified(out io.Writer, name string, from, to []byte) error {
	text := diff.Diff("a/"+name, from, "b/"+name, to)
	_, rest, _ := bytes.Cut(text, []byte("+++ b/"+name+"\n"))
	if text == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "--- a/%s\t%s seq:%d\n+++ b/%s\t%s seq:%d\n%s", name, d.From.Time, d.From.Seq, name, d.To.Time, d.To.Seq, rest)
	return err
}

// lists are the things of each kind, a line for each.
func lists(things []projections.Thing) map[string][]byte {
	text := map[string][]byte{}
	for _, t := range things {
		line := t.Name
		for _, f := range t.Fields {
			line += "  " + f.Name + "=" + f.Value
		}
		text[t.Kind] = append(text[t.Kind], term.Printable(line)+"\n"...)
	}
	return text
}
