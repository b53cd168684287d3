package replay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Moment is a point of a session as a person writes it: RFC 3339, 10:37:06 on the session's day (UTC), +90s from the
// start, -30s or 30s before the end, seq:N, mark:TEXT, or step:N, the moment at which the file of the profile's step N
// first became complete. The zero Moment is the end.
type Moment struct {
	text string
	kind momentKind
	at   time.Time     // of a clock time: on the first day of the calendar
	by   time.Duration // of a time: how exact it was written, at least a nanosecond
	seq  uint64
	mark string
	step int
}

// Start is the moment of the session's first event.
var Start = Moment{text: "the start", kind: afterStart}

type momentKind uint8

const (
	atEnd momentKind = iota
	atTime
	atClock
	afterStart
	beforeEnd
	atSeq
	atMark
	atStep
)

// MomentForms says in one line how a moment is written.
const MomentForms = "RFC 3339, 10:37:06 (UTC), +90s from the start, -30s or 30s before the end, seq:N, mark:TEXT or step:N"

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
	case strings.HasPrefix(s, "step:"):
		m.kind = atStep
		m.step, err = strconv.Atoi(s[len("step:"):])
	case s[0] == '+':
		m.kind = afterStart
		m.by, err = positive(s[1:])
	case s[0] == '-':
		m.kind = beforeEnd
		m.by, err = positive(s[1:])
	default:
		err = m.parseTime(s)
	}
	if err != nil {
		return Moment{}, fmt.Errorf("moment %q: want %s", s, MomentForms)
	}
	return m, nil
}

// parseTime reads a time of day or of the calendar, or how long before the end (Hubble's way: 10m).
func (m *Moment) parseTime(s string) (err error) {
	if m.by, err = positive(s); err == nil {
		m.kind = beforeEnd
		return nil
	}
	m.kind, m.by = atTime, exactness(s)
	if m.at, err = time.Parse(time.RFC3339Nano, s); err == nil {
		return nil
	}
	m.kind = atClock
	m.at, err = time.Parse("15:04:05.999999999", s)
	return err
}

// exactness is the unit that a time was written in: a second, or that of its last decimal.
func exactness(s string) time.Duration {
	unit := time.Second
	if _, fraction, ok := strings.Cut(s, "."); ok {
		for _, c := range []byte(fraction) {
			if c < '0' || c > '9' || unit == 1 {
				break
			}
			unit /= 10
		}
	}
	return unit
}

func positive(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && (d < 0 || strings.HasPrefix(s, "+")) {
		err = errors.New("signed")
	}
	return d, err
}

func (m Moment) String() string {
	if m.kind == atEnd {
		return "the end"
	}
	return m.text
}
