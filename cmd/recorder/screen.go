package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
	"github.com/tapedeck-io/tapedeck/internal/term"
	xterm "golang.org/x/term"
)

// screen shows on a terminal which of the lab's files are complete and what the others wait for. It draws over
// itself, from what session.json says.
type screen struct {
	w       io.Writer
	width   func() int
	session string
	out     string
	lines   int
	last    string
}

func newScreen(f *os.File, session, out string) *screen {
	return &screen{w: f, session: session, out: out, width: func() int {
		if width, _, err := xterm.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}}
}

type sessionJSON struct {
	Session string
	Node    string
	Seq     uint64
	AsOf    string `json:"as_of"`
	Files   []struct {
		File     string
		Step     int
		Status   string
		WaitsFor []string `json:"waits_for"`
	}
	Sources []struct {
		Source, Status string
		Error          string
	}
}

func (s *screen) show(files []projections.File, st *projections.State) {
	var v sessionJSON
	if json.Unmarshal(files[len(files)-1].Data, &v) != nil {
		return
	}
	text := cut(s.draw(v)+s.findings(st.Findings()), s.width())
	if text == s.last {
		return
	}
	if s.lines > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\x1b[J", s.lines)
	}
	fmt.Fprint(s.w, text)
	s.last, s.lines = text, strings.Count(text, "\n")
}

// cut shortens lines to the terminal's width: one that wraps would be two, and the next draw would miss it.
func cut(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if r := []rune(l); len(r) > width {
			lines[i] = string(r[:width-1]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}

func (s *screen) draw(v sessionJSON) string {
	var b strings.Builder
	fmt.Fprintf(&b, "recording node %s, session %s\nfiles in %s (Ctrl-C stops)\n\n", term.Printable(v.Node), s.session, s.out)
	for _, f := range v.Files {
		mark := map[string]string{"complete": "✔", "stale": "!", "waiting": "…", "absent": "·"}[f.Status]
		fmt.Fprintf(&b, "  %s %-8s%-14s %s\n", mark, stepText(f.Step), f.File, fileText(f.Status, f.WaitsFor))
	}
	b.WriteString("\n  sources ")
	for _, src := range v.Sources {
		if src.Source != recorder.Self {
			fmt.Fprintf(&b, " %s:%s", src.Source, src.Status)
		}
	}
	b.WriteString("\n")
	for _, e := range v.errors() {
		b.WriteString(wrap(e, s.width()))
	}
	return b.String()
}

// errors are the sources' errors, each once with the sources it is of.
func (v sessionJSON) errors() []string {
	var list []string
	of := map[string][]string{}
	for _, src := range v.Sources {
		if src.Error == "" {
			continue
		}
		if of[src.Error] == nil {
			list = append(list, src.Error)
		}
		of[src.Error] = append(of[src.Error], src.Source)
	}
	for i, e := range list {
		list[i] = strings.Join(of[e], ", ") + ": " + term.Printable(e)
	}
	return list
}

// wrap breaks a sentence between words, so that its mend at the end is not cut off.
func wrap(text string, width int) string { return term.Wrap(text, "    ", "      ", width) }

// stepText is empty for files that no step of the lab asks for.
func stepText(step int) string {
	if step == 0 {
		return ""
	}
	return fmt.Sprintf("step %d", step)
}

func fileText(status string, waits []string) string {
	if len(waits) == 0 {
		return status
	}
	text := "waits for " + term.Printable(waits[0])
	if status == "stale" {
		text = "rests on " + term.Printable(waits[0])
	}
	if more := len(waits) - 1; more > 0 {
		text += fmt.Sprintf(" (+%d)", more)
	}
	return text
}
