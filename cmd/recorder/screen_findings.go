package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/term"
)

// shownFindings is how many of the newest findings that last, and of the last ones that ended, the screen shows: it must
// fit a terminal to be drawn over itself.
const shownFindings = 3

// findings shows what is wrong, in full sentences, and what has ended.
func (s *screen) findings(list []*projections.Finding) string {
	open := 0
	for _, f := range list {
		if f.Lasts() {
			open++
		}
	}
	ended := list[open:]
	var b strings.Builder
	fmt.Fprintf(&b, "\n  findings  %d open, %d ended\n", open, len(ended))
	for _, f := range newest(list[:open]) {
		b.WriteString(wrap(fmt.Sprintf("%s %s since %s: %s", f.Level(), f.Rule, clock(f.SinceNs), term.Printable(f.Text)), s.width()))
	}
	for _, f := range newest(ended) {
		fmt.Fprintf(&b, "    ended %s after %s: %s %s\n", clock(f.EndedNs), time.Duration(f.EndedNs-f.SinceNs).Round(time.Millisecond), f.Rule, term.Printable(f.Subject))
	}
	return b.String()
}

func newest(list []*projections.Finding) []*projections.Finding {
	return list[max(0, len(list)-shownFindings):]
}

func clock(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000") }
