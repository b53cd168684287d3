package podlog

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// maxLine is how many bytes of a line are kept; what is cut off is counted.
const maxLine = 16 << 10

// maxStamp bounds the kubelet's stamp and the space behind it: 2026-12-01T02:02:45.123456789+00:00.
const maxStamp = 64

// splitter reads stamped lines from a log stream, in memory that does not depend on the lines' lengths.
type splitter struct {
	r    *bufio.Reader
	buf  []byte
	last int64 // stamp of the line before

	redact *redactor
}

func newSplitter(r io.Reader, redact *redactor) *splitter {
	return &splitter{r: bufio.NewReaderSize(r, 32<<10), buf: make([]byte, 0, maxStamp+maxLine), redact: redact}
}

// next returns a line; whole is false for one that the stream's end cut short. The error is the stream's.
func (s *splitter) next() (line *eventpb.LogLine, whole bool, err error) {
	s.buf = s.buf[:0]
	var cut uint64
	read := false
	for {
		chunk, err := s.r.ReadSlice('\n')
		read = read || len(chunk) > 0
		whole = err == nil
		if whole {
			chunk = chunk[:len(chunk)-1]
		}
		keep := min(len(chunk), cap(s.buf)-len(s.buf))
		s.buf = append(s.buf, chunk[:keep]...)
		cut += uint64(len(chunk) - keep)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if !read {
			return nil, false, err
		}
		return s.parse(s.buf, cut), whole, err
	}
}

// parse takes the stamp off. Text without one goes on from the line before, and gets its stamp.
func (s *splitter) parse(b []byte, cut uint64) *eventpb.LogLine {
	text := string(b)
	if stamp, rest, ok := strings.Cut(text[:min(len(text), maxStamp)], " "); ok {
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			s.last = at.UnixNano()
			text = rest + text[min(len(text), maxStamp):]
		}
	}
	if cut == 0 {
		text = strings.TrimSuffix(text, "\r")
	}
	kept := cutTo(text, maxLine)
	cut += uint64(len(text) - len(kept))
	return &eventpb.LogLine{TimeNs: s.last, Text: s.redact.line(strings.ToValidUTF8(kept, "\uFFFD")), Cut: cut}
}
