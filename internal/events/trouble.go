package events

import "strings"

// Trouble is an error that a person can act on: one sentence with the thing, the cause and the mend.
type Trouble struct {
	Thing string // what could not be used, with its path or address
	Cause error
	Mend  string // an act, in the imperative
}

func (t *Trouble) Error() string {
	s := t.Thing
	if t.Cause != nil {
		s += ": " + strings.TrimSpace(t.Cause.Error())
	}
	if t.Mend != "" {
		s += "; " + t.Mend
	}
	return s
}

func (t *Trouble) Unwrap() error { return t.Cause }
