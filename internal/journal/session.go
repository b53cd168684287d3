package journal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
)

// makeFolder makes a session's folder, closed to others. One that somebody made for it is closed too; one that holds
// something is another's to decide on, and what the session puts into it is closed by itself.
func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// sessionID reads DIR/session, or makes it once: from want when given, else from the time. An id is one token
// of a subject.
func sessionID(dir, want string) (string, error) {
	path := filepath.Join(dir, "session")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read session id: %w", err)
	}
	have := strings.TrimSpace(string(b))
	switch {
	case have == "":
		return makeSession(path, want)
	case want != "" && token(want) != have:
		return "", &events.Trouble{
			Thing: "session folder " + dir,
			Cause: fmt.Errorf("%w: holds %s, not %s", ErrOtherSession, have, token(want)),
			Mend:  "leave out the session's name to continue it, or use an empty folder",
		}
	}
	return token(have), nil
}

func makeSession(path, want string) (string, error) {
	id := token(want)
	if want == "" {
		var b [3]byte
		rand.Read(b[:])
		id = time.Now().UTC().Format("20060102t150405z") + "-" + hex.EncodeToString(b[:])
	}
	if err := replaceFile(path, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("write session id: %w", err)
	}
	return id, nil
}

// CheckSession tells whether dir holds a session, without touching it. Its error wraps ErrNoSession, or is why dir
// cannot be read.
func CheckSession(dir string) error {
	_, err := os.Stat(filepath.Join(dir, "session"))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoSession
	}
	return events.Cause(err)
}
