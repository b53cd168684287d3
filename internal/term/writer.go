package term

import (
	"io"
	"unicode"
	"unicode/utf8"
)

// Writer lets through to a terminal what cannot steer it: of control characters line breaks and tabs alone. It is for
// text as a whole, of which JSON may hold what Printable takes out of a cell.
type Writer struct {
	to   io.Writer
	rest []byte // of a rune that was cut
}

// NewWriter returns one. What is left of a rune at its end is not written.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

func (w *Writer) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	out := make([]byte, 0, len(text))
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		if steers(r) && r != '\n' && r != '\t' {
			r = unicode.ReplacementChar
		}
		out = utf8.AppendRune(out, r)
		text = text[size:]
	}
	w.rest = append([]byte(nil), text...)
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
