// Package verify reads a tape from end to end and says what of it is whole and what is not.
package verify

import (
	"context"
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/journal"
)

// Report is what was found.
type Report struct {
	Session string  `json:"session"`
	Node    string  `json:"node"`
	Whole   bool    `json:"whole"`
	SHA256  string  `json:"sha256"` // of all before the index: the same for every copy
	Checks  []Check `json:"checks"`
}

// Check is one question to the tape and its answer.
type Check struct {
	Name     string   `json:"check"`
	Whole    bool     `json:"whole"`
	Seen     string   `json:"seen"` // what was looked at, in words
	Problems []string `json:"problems,omitempty"`
	More     int      `json:"more_problems,omitempty"` // that are not listed
}

// mostProblems bounds what one check lists.
const mostProblems = 20

func (c *Check) problem(format string, a ...any) {
	c.Whole = false
	if len(c.Problems) == mostProblems {
		c.More++
		return
	}
	c.Problems = append(c.Problems, fmt.Sprintf(format, a...))
}

// Tape reads everything. Memory grows by about 40 bytes an event, for the ids.
func Tape(ctx context.Context, t *journal.Tape) (*Report, error) {
	read := newReading(t.Header().SessionId)
	s, err := t.Survey(ctx, read.record)
	if err != nil {
		return nil, err
	}
	r := &Report{Session: t.Header().SessionId, Node: t.Header().Node, Whole: true, SHA256: s.SHA256}
	r.Checks = append([]Check{fileCheck(t, s), sumCheck(s), framesCheck(s), keyframesCheck(s), positionsCheck(t, s, read)}, read.checks()...)
	for _, c := range r.Checks {
		r.Whole = r.Whole && c.Whole
	}
	return r, nil
}

func fileCheck(t *journal.Tape, s *journal.Survey) Check {
	c := Check{Name: "file", Whole: true, Seen: fmt.Sprintf("format %d, written by version %s, %d bytes before the index", s.Format, t.Header().ToolVersion, s.Bytes)}
	if torn := t.Torn(); torn != nil {
		c.problem("%v", torn)
	}
	damaged(&c, s, "index")
	return c
}

func sumCheck(s *journal.Survey) Check {
	c := Check{Name: "sha256", Whole: true, Seen: s.SHA256}
	switch s.Promised {
	case s.SHA256:
	case "":
		c.problem("there is no index to compare with")
	default:
		c.problem("the index says %s: the tape was changed", s.Promised)
	}
	return c
}

func framesCheck(s *journal.Survey) Check {
	c := Check{Name: "frames", Whole: true, Seen: fmt.Sprintf("%d frames with %d events", s.Frames, s.Records)}
	damaged(&c, s, "frame")
	if c.Whole && s.Records != s.Indexed {
		c.problem("%d events can be read, the index counts %d", s.Records, s.Indexed)
	}
	return c
}

func keyframesCheck(s *journal.Survey) Check {
	c := Check{Name: "keyframes", Whole: true, Seen: fmt.Sprintf("%d keyframes", s.Keyframes)}
	damaged(&c, s, "keyframe")
	return c
}

func damaged(c *Check, s *journal.Survey, part string) {
	for _, d := range s.Damage {
		switch {
		case d.Part != part:
		case part == "frame":
			c.problem("frame at byte %d, seq %d to %d: %v", d.Offset, d.From, d.To, d.Err)
		case part == "keyframe":
			c.problem("keyframe at byte %d, seq %d: %v", d.Offset, d.From, d.Err)
		default:
			c.problem("%s at byte %d: %v", part, d.Offset, d.Err)
		}
	}
}

func positionsCheck(t *journal.Tape, s *journal.Survey, r *reading) Check {
	h := t.Header()
	c := r.positions
	c.Seen = fmt.Sprintf("seq %d to %d", r.first, r.last)
	if s.Records == 0 {
		c.Seen = "no events"
	}
	if h.LastSeq >= h.FirstSeq && h.LastSeq > 0 && s.Records > 0 && (r.first != h.FirstSeq || r.last != h.LastSeq) {
		c.problem("the header says seq %d to %d", h.FirstSeq, h.LastSeq)
	}
	return c
}
