package podlog

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// redacted stands for what was taken out of a line.
const redacted = "[redacted]"

// pattern is what a line is not to keep, and what stands in its place.
type pattern struct {
	name    string
	re      *regexp.Regexp
	replace string
}

const secretName = `[\w.-]*(?:password|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|token|credentials?)`

// builtIn are always in force. They are for what logs have by mistake again and again, and know no secret by its
// meaning: a password without a name before it stays.
var builtIn = []pattern{
	{"authorization", regexp.MustCompile(`(?i)(\b(?:proxy-)?authorization\b["']?\s*[:=]\s*["']?(?:(?:basic|bearer|digest|negotiate|token|apikey|aws4-hmac-sha256)\s+)?)[^\s"']+`), "${1}" + redacted},
	{"bearer", regexp.MustCompile(`(?i)(\bbearer\s+)[\w.~+/-]{6,}=*`), "${1}" + redacted},
	{"cookie", regexp.MustCompile(`(?i)(\b(?:set-)?cookie["']?\s*[:=]\s*["']?)[^"']+`), "${1}" + redacted},
	{"assignment", regexp.MustCompile(`(?i)(\b` + secretName + `\b\\?["']?\s*[:=]\s*)(?:\\"[^"\\]*\\"|\\?"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"',;&}\]]+)`), "${1}" + redacted},
	{"option", regexp.MustCompile(`(?i)(--?` + secretName + `\s+)[^\s-]\S*`), "${1}" + redacted},
	{"url user", regexp.MustCompile(`(\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*:)[^\s/]+@`), "${1}" + redacted + "@"},
	{"aws key", regexp.MustCompile(`\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b`), redacted},
	{"jwt", regexp.MustCompile(`\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?`), redacted},
	{"service token", regexp.MustCompile(`\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abeprs]-[\w-]{10,}|glpat-[\w-]{20,}|[sr]k_live_\w{16,})`), redacted},
	// A line of a key whose first line was not seen.
	{"private key", regexp.MustCompile(`^\s*[A-Za-z0-9+/]{64}\s*$`), redacted},
}

// BuiltIn names the patterns that are always in force.
func BuiltIn() []string {
	var names []string
	for _, p := range builtIn {
		names = append(names, p.name)
	}
	return names
}

var (
	keyBegin = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----`)
	keyEnd   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----`)
)

// maxKeyLines bounds a private key: one that does not end must not take the rest of the log with it.
const maxKeyLines = 128

// redactor makes one container's lines fit to be stored. It must see them in order.
type redactor struct {
	patterns []pattern
	keyLines int // of a private key that are still to come, at most
}

func newRedactor(more []*regexp.Regexp) *redactor {
	r := &redactor{patterns: slices.Clone(builtIn)}
	for _, re := range more {
		r.patterns = append(r.patterns, pattern{"", re, redacted})
	}
	return r
}

// line returns what may be kept of a line. It may be longer than the line.
func (r *redactor) line(text string) string {
	text = r.privateKeys(text)
	for _, p := range r.patterns {
		text = cutTo(p.re.ReplaceAllString(text, p.replace), maxLine)
	}
	return text
}

// privateKeys takes out blocks, within a line or over many.
func (r *redactor) privateKeys(text string) string {
	var b strings.Builder
	for {
		if r.keyLines == 0 {
			at := keyBegin.FindStringIndex(text)
			if at == nil {
				b.WriteString(text)
				return b.String()
			}
			b.WriteString(text[:at[0]])
			text, r.keyLines = text[at[1]:], maxKeyLines
		}
		b.WriteString(redacted)
		at := keyEnd.FindStringIndex(text)
		if at == nil {
			r.keyLines--
			return b.String()
		}
		text, r.keyLines = text[at[1]:], 0
	}
}

// cutTo cuts text to most bytes, between runes.
func cutTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
