package journal

import "errors"

var (
	// ErrLocked: another process has this session folder open.
	ErrLocked = errors.New("locked by another process")
	// ErrClosed: the journal was closed before the event was stored.
	ErrClosed = errors.New("journal closed")
	// errRestarting: after a write error the server is started again; what is stored can be read when it is up.
	errRestarting = errors.New("journal is being started again")
	// ErrTooBig: an event is larger than MaxEvent. Its source must split it; to wait would be for ever.
	ErrTooBig = errors.New("event too big")
	// ErrRegressed: a reader is further than the journal, which therefore lost its tail or is another one.
	// What was derived from it must be made again from the start.
	ErrRegressed = errors.New("journal ends before this position")
	// ErrNoSession: a folder holds no session.
	ErrNoSession = errors.New("not a session")
	// ErrOtherSession: the folder holds another session than the one asked for.
	ErrOtherSession = errors.New("another session")

	// ErrForeign: a file is not a tape.
	ErrForeign = errors.New("not a tape")
	// ErrNewer: a tape's format is newer than this program.
	ErrNewer = errors.New("newer tape format")
	// ErrTorn: a tape's end is missing.
	ErrTorn = errors.New("torn tape")
	// ErrDamaged: a part of a tape is not what was written.
	ErrDamaged = errors.New("damaged tape")
)
