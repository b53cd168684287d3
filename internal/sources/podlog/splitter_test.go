package podlog

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/testing/protocmp"
)

const stamp = "2026-12-01T02:02:45.123456789Z"

var stampNs = time.Date(2026, 12, 1, 2, 2, 45, 123456789, time.UTC).UnixNano()

func TestSplitter(t *testing.T) {
	line := func(text string, cut uint64) *eventpb.LogLine {
		return &eventpb.LogLine{TimeNs: stampNs, Text: text, Cut: cut}
	}
	for name, c := range map[string]struct {
		in   string
		want []*eventpb.LogLine
	}{
		"lines":                 {stamp + " a\n" + stamp + " b c\n", []*eventpb.LogLine{line("a", 0), line("b c", 0)}},
		"empty line":            {stamp + " \n", []*eventpb.LogLine{line("", 0)}},
		"offset instead of Z":   {"2026-12-01T03:02:45.123456789+01:00 a\n", []*eventpb.LogLine{line("a", 0)}},
		"carriage return":       {stamp + " a\r\n", []*eventpb.LogLine{line("a", 0)}},
		"end without a newline": {stamp + " a", []*eventpb.LogLine{line("a", 0)}},
		"not UTF-8":             {stamp + " a\xff\xfeb\n", []*eventpb.LogLine{line("a\uFFFDb", 0)}},
		"no stamp goes on":      {stamp + " a\nand more text\n", []*eventpb.LogLine{line("a", 0), line("and more text", 0)}},
		"no stamp at all":       {"hello world\n", []*eventpb.LogLine{{Text: "hello world"}}},
		"longest that is whole": {stamp + " " + strings.Repeat("x", maxLine) + "\n", []*eventpb.LogLine{line(strings.Repeat("x", maxLine), 0)}},
		"one byte too long":     {stamp + " " + strings.Repeat("x", maxLine+1) + "\n", []*eventpb.LogLine{line(strings.Repeat("x", maxLine), 1)}},
		"a megabyte (alloy#5602)": {stamp + " " + strings.Repeat("x", 1<<20) + "\n" + stamp + " b\n",
			[]*eventpb.LogLine{line(strings.Repeat("x", maxLine), 1<<20-maxLine), line("b", 0)}},
		"not cut inside a letter": {stamp + " " + strings.Repeat("x", maxLine-1) + "é\n", []*eventpb.LogLine{line(strings.Repeat("x", maxLine-1), 2)}},
		"nothing":                 {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "by halves": iotest.HalfReader(strings.NewReader(c.in))} {
				s := newSplitter(r, newRedactor(nil))
				var got []*eventpb.LogLine
				for {
					l, _, err := s.next()
					if l != nil {
						got = append(got, l)
					}
					if err != nil {
						break
					}
				}
				if d := cmp.Diff(c.want, got, protocmp.Transform()); d != "" {
					t.Errorf("read %s: %s", kind, d)
				}
			}
		})
	}
}

func TestTornLineIsToldFromAWholeOne(t *testing.T) {
	broken := errors.New("connection reset")
	s := newSplitter(io.MultiReader(strings.NewReader(stamp+" whole\n"+stamp+" to"), iotest.ErrReader(broken)), newRedactor(nil))
	if l, whole, err := s.next(); l.GetText() != "whole" || !whole || err != nil {
		t.Errorf("first %v %t %v", l, whole, err)
	}
	if l, whole, err := s.next(); l.GetText() != "to" || whole || !errors.Is(err, broken) {
		t.Errorf("second %v %t %v", l, whole, err)
	}
}

// zeroes is an endless line.
type zeroes struct{ left int }

func (z *zeroes) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), z.left)
	z.left -= n
	return n, nil
}

func TestALongLineCostsNoMemory(t *testing.T) {
	const line = 256 << 20
	var before, after runtime.MemStats
	s := newSplitter(&zeroes{left: line}, newRedactor(nil))
	runtime.ReadMemStats(&before)
	_, _, _ = s.next()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > line/100 { // the redactor's patterns take some
		t.Errorf("%d bytes allocated for a line of %d of which %d are kept", got, line, maxLine)
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add(stamp + " a\n" + stamp + " b")
	f.Add("\n \n\xff")
	f.Add(stamp)
	f.Fuzz(func(t *testing.T, in string) {
		s := newSplitter(strings.NewReader(in), newRedactor(nil))
		for n := 0; ; n++ {
			l, _, err := s.next()
			if l != nil && (!utf8.ValidString(l.Text) || strings.Contains(l.Text, "\n")) {
				t.Errorf("text %q", l.Text)
			}
			if err != nil {
				if n > strings.Count(in, "\n") {
					t.Errorf("%d lines of %d newlines", n, strings.Count(in, "\n"))
				}
				return
			}
		}
	})
}

func TestSeenStaysSmall(t *testing.T) {
	s := &seen{}
	for i := range maxStamps + 100 {
		s.note(stampNs + int64(i))
	}
	if len(s.stamps) > maxStamps {
		t.Errorf("%d stamps kept, want at most %d", len(s.stamps), maxStamps)
	}
	r := s.replay()
	if !r.old(stampNs+maxStamps+99) || r.old(stampNs+maxStamps+100) {
		t.Error("behind the bound, order tells the lines apart")
	}
}
