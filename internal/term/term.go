// Package term makes foreign text fit to be shown.
package term

import (
	"strings"
	"unicode"
)

// Printable keeps names, log lines and errors from foreign places from steering the terminal, from looking like other
// text and from taking more than a line: control characters, line breaks and tabs among them, separators of lines and
// what turns the direction of writing become U+FFFD.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

func steers(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}
