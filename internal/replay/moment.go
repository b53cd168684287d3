package replay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Moment is a point of a session as a person writes it: RFC 3339, +90s from the start, -30s from the end, seq:N,
// or mark:TEXT. The zero Moment is the end.
type Moment struct {
	text string
	kind momentKind
	at   time.Time
	by   time.Duration
	seq  uint64
	mark string
}

type momentKind uint8

const (
	atEnd momentKind = iota
	atTime
	afterStart
	beforeEnd
	atSeq
	atMark
)

// ParseMoment reads a moment; its error names the forms.
func ParseMoment(s string) (Moment, error) {
	m := Moment{text: s}
	var err error
	switch {
	case s == "":
	case strings.HasPrefix(s, "seq:"):
		m.kind = atSeq
		m.seq, err = strconv.ParseUint(s[len("seq:"):], 10, 64)
	case strings.HasPrefix(s, "mark:"):
		m.kind, m.mark = atMark, s[len("mark:"):]
	case s[0] == '+':
		m.kind = afterStart
		m.by, err = positive(s[1:])
	case s[0] == '-':
		m.kind = beforeEnd
		m.by, err = positive(s[1:])
	default:
		m.kind = atTime
		m.at, err = time.Parse(time.RFC3339Nano, s)
	}
	if err != nil {
		return Moment{}, fmt.Errorf("moment %q: want RFC 3339, +90s from the start, -30s from the end, seq:N or mark:TEXT", s)
	}
	return m, nil
}

func positive(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("negative")
	}
	return d, err
}

func (m Moment) String() string {
	if m.kind == atEnd {
		return "the end"
	}
	return m.text
}
