package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"golang.org/x/sys/unix"
)

// lockDir makes this process the only user of dir. An embedded server takes no lock of its own, and two of them
// on one folder would destroy it. The kernel drops the lock when the process dies, however it dies.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, lockedTrouble(dir, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := writePid(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("write lock: %w", err)
	}
	return f, nil
}

func writePid(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func lockedTrouble(dir, path string) error {
	cause := ErrLocked
	if b, err := os.ReadFile(path); err == nil {
		if pid := strings.TrimSpace(string(b)); pid != "" {
			cause = fmt.Errorf("%w, pid %s", ErrLocked, pid)
		}
	}
	return &events.Trouble{Thing: "session folder " + dir, Cause: cause, Mend: "stop it, or use another session folder"}
}

// unlock empties the file and keeps it: removing it would let two processes lock two files of one name.
func unlock(f *os.File) error {
	f.Truncate(0)
	return f.Close()
}
