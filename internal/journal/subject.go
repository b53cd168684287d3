package journal

import "strings"

// token makes s fit for one token of a subject: no dots, spaces, wildcards or control characters, never empty.
func token(s string) string {
	if s == "" {
		return "_"
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(".*>$", r) {
			return '_'
		}
		return r
	}, s)
}

// subject is where an event is stored: tape.<session>.<node>.<source>.<kind>. Keys of objects stay in the payload,
// since many subjects cost the server memory and slow its reads.
func subject(session, node, source, kind string) string {
	return strings.Join([]string{"tape", token(session), token(node), token(source), token(kind)}, ".")
}
