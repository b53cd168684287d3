package projections

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"golang.org/x/sys/unix"
)

// ErrInUse: another process writes the output folder.
var ErrInUse = errors.New("another recorder or replay writes it")

// Folder is an output folder, which one process writes at a time. It writes a file when its content changes or the
// file is gone, and removes it when its subject goes.
type Folder struct {
	dir  string
	lock *os.File
	last map[string][]byte
}

// OpenFolder makes the folder, locks it and takes files of earlier runs out of it. Its error may wrap ErrInUse.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make it: %w", events.Cause(err))
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, events.Cause(err)
	}
	f := &Folder{dir: dir, lock: lock, last: map[string][]byte{}}
	if err := f.begin(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Folder) begin() error {
	if err := unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	} else if err != nil {
		return fmt.Errorf("lock it: %w", err)
	}
	if err := unix.Access(f.dir, unix.W_OK|unix.X_OK); err != nil {
		return err
	}
	for _, v := range Views {
		if err := f.remove(v.File); err != nil {
			return err
		}
	}
	return nil
}

// Close lets another process write the folder.
func (f *Folder) Close() error { return f.lock.Close() }

// Write makes the folder hold these files and returns the first error; what could be written is.
func (f *Folder) Write(files []File) error {
	var first error
	for _, file := range files {
		if f.holds(file) {
			continue
		}
		act := f.replace
		if file.Data == nil {
			act = func(name string, _ []byte) error { return f.remove(name) }
		}
		if err := act(file.Name, file.Data); err != nil {
			first = errors.Join(first, err)
			continue
		}
		f.last[file.Name] = file.Data
	}
	return first
}

// holds says that the file is as it was written last, and there.
func (f *Folder) holds(file File) bool {
	last, had := f.last[file.Name]
	if !had || !bytes.Equal(last, file.Data) || (last == nil) != (file.Data == nil) {
		return false
	}
	_, err := os.Lstat(filepath.Join(f.dir, file.Name))
	return (err == nil) == (file.Data != nil)
}

// replace is atomic for readers. There is no fsync: after a crash the files are made again from the journal.
func (f *Folder) replace(name string, data []byte) error {
	path := filepath.Join(f.dir, name)
	tmp, err := os.CreateTemp(f.dir, "."+name+".*")
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(f.dir, 0o755); err == nil {
			tmp, err = os.CreateTemp(f.dir, "."+name+".*")
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (f *Folder) remove(name string) error {
	err := os.Remove(filepath.Join(f.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove output file: %w", err)
	}
	return nil
}

// CheckFolder tells whether the folder, or the one it would be made in, can be written. It leaves nothing behind.
func CheckFolder(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return &fs.PathError{Op: "open", Path: dir, Err: errors.New("is not a folder")}
		case err == nil:
			return unix.Access(dir, unix.W_OK|unix.X_OK)
		case !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir:
			return err
		}
		dir = filepath.Dir(dir)
	}
}
