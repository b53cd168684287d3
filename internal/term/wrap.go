package term

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks text between words into lines of no more than width characters, where words let it: the first begins with
// first, the others with rest.
func Wrap(text, first, rest string, width int) string {
	var b strings.Builder
	line, begun := first, false
	for _, word := range strings.Fields(text) {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line, begun = rest, false
		}
		if begun {
			line += " "
		}
		line, begun = line+word, true
	}
	return b.String() + line + "\n"
}
