package explain

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tapedeck-io/tapedeck/internal/term"
)

// textWidth is where paragraphs are broken.
const textWidth = 110

// Text prints the explanation for people: the views side by side, then the sentences, then what is not known.
func (e *Explanation) Text(out io.Writer) error {
	if _, err := fmt.Fprintf(out, "%s at %s (seq:%d)\n\n", term.Printable(e.Subject), e.Time, e.Seq); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VIEW\tOF\tSAYS\tBY")
	last := ""
	for _, v := range e.Views {
		name := v.View
		if name == last {
			name = ""
		}
		last = v.View
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, term.Printable(v.What), term.Printable(v.Says), seqs(v.Seq))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	for _, s := range e.Statements {
		paragraph(&b, term.Printable(s.Text)+"  ["+seqs(s.Seq)+"]")
	}
	if len(e.Unknown) > 0 {
		b.WriteString("\nNot known:")
	}
	for _, u := range e.Unknown {
		paragraph(&b, term.Printable(u.What+" – "+u.Source))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// seqs lists events; of a long list, the first and the last.
func seqs(list []uint64) string {
	var texts []string
	for i, s := range list {
		switch {
		case len(list) > 6 && i == 3:
			texts = append(texts, "…")
		case len(list) > 6 && i > 3 && i < len(list)-2:
		default:
			texts = append(texts, fmt.Sprintf("seq:%d", s))
		}
	}
	return strings.Join(texts, " ")
}

// paragraph writes a sentence behind a mark, broken between words.
func paragraph(b *strings.Builder, text string) {
	line := "\n•"
	for _, word := range strings.Fields(text) {
		if len([]rune(line))+1+len([]rune(word)) > textWidth {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}
