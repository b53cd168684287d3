package events

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

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

// Cause is what an error of the file system says without its act and path, for a Trouble that names the thing.
func Cause(err error) error {
	var path *fs.PathError
	var call *os.SyscallError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &call):
		return call.Err
	}
	return err
}
