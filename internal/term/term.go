// Package term makes foreign text fit to be shown.
package term

import "strings"

// Printable keeps names, log lines and errors from foreign places from steering the terminal: control characters
// become U+FFFD. Line breaks and tabs are control characters too.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '�'
		}
		return r
	}, s)
}
