package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/tapedeck-io/tapedeck/internal/replay/timeline"
	"github.com/tapedeck-io/tapedeck/internal/term"
)

// rowTable prints rows in columns. The first rows decide how wide the columns are, so that a long session is not kept.
type rowTable struct {
	w     *bufio.Writer
	held  [][]string
	width []int
	day   string
}

const heldRows = 500

var timelineColumns = []string{"TIME", "AFTER", "SERVICE", "KIND", "SUBJECT", "WHAT", "SEQ", "CAUSE"}

func newRowTable(w io.Writer) *rowTable { return &rowTable{w: bufio.NewWriter(w)} }

// add prints a row, or keeps it until the widths are known.
func (t *rowTable) add(r timeline.Row) error {
	at := time.Unix(0, r.TimeNs).UTC()
	if day := at.Format(time.DateOnly); day != t.day && (t.day == "" || day > t.day) {
		t.day = day
		if err := t.line([]string{day + " UTC"}); err != nil {
			return err
		}
	}
	after, cause := "", ""
	if d, ok := r.Delay(); ok {
		after, cause = "+"+after3(d), fmt.Sprint(r.Cause.Seq)
	}
	cells := []string{at.Format("15:04:05.000"), after, strings.Join(r.Services, ","), string(r.Kind), r.Subject, r.Text, fmt.Sprint(r.Seq), cause}
	for i := range cells {
		cells[i] = term.Printable(cells[i])
	}
	return t.line(cells)
}

// after3 shows a delay in milliseconds below ten seconds.
func after3(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func (t *rowTable) line(cells []string) error {
	if t.width == nil {
		if t.held = append(t.held, cells); len(t.held) < heldRows {
			return nil
		}
		return t.release()
	}
	return t.print(cells)
}

func (t *rowTable) release() error {
	t.width = make([]int, len(timelineColumns))
	for _, cells := range append([][]string{timelineColumns}, t.held...) {
		for i, c := range cells {
			if len(cells) > 1 {
				t.width[i] = max(t.width[i], utf8.RuneCountInString(c))
			}
		}
	}
	t.width[5] = min(t.width[5], 92)
	held := append([][]string{timelineColumns}, t.held...)
	t.held = nil
	for _, cells := range held {
		if err := t.print(cells); err != nil {
			return err
		}
	}
	return nil
}

func (t *rowTable) print(cells []string) error {
	var b strings.Builder
	for i, c := range cells {
		pad := t.width[i] - utf8.RuneCountInString(c)
		if i == 1 || i >= 6 { // numbers stand to the right
			b.WriteString(strings.Repeat(" ", max(pad, 0)))
			pad = 0
		}
		b.WriteString(c)
		b.WriteString(strings.Repeat(" ", max(pad, 0)+2))
	}
	_, err := t.w.WriteString(strings.TrimRight(b.String(), " ") + "\n")
	return err
}

// end prints the figures under the rows.
func (t *rowTable) end(list []timeline.Convergence) error {
	if t.width == nil {
		if err := t.release(); err != nil {
			return err
		}
	}
	fmt.Fprintln(t.w)
	if len(list) == 0 {
		fmt.Fprintln(t.w, "CONVERGENCE  no backend came or went")
		return t.w.Flush()
	}
	tw := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "CONVERGENCE EndpointSlice → map\tbackends\tcount\tmin\tmedian\tp99\tmap first\t")
	for _, c := range list {
		low, mid, high := "-", "-", "-"
		if c.Count > 0 {
			low, mid, high = after3(c.Min), after3(c.Median), after3(c.P99)
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t\n", term.Printable(c.Service), c.Direction, c.Count, low, mid, high, c.MapFirst)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return t.w.Flush()
}
