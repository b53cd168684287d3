package projections

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folder is an output folder. It writes a file when its content changes and removes it when it goes; it knows
// what it wrote.
type Folder struct {
	dir  string
	last map[string][]byte
}

// OpenFolder makes the folder and takes files of earlier runs out of it.
func OpenFolder(dir string) (*Folder, error) {
	f := &Folder{dir: dir, last: map[string][]byte{}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make output folder: %w", err)
	}
	for _, v := range Views {
		if err := f.remove(v.File); err != nil {
			return nil, err
		}
	}
	// Shows now that it can be written.
	if err := f.replace("session.json", []byte("{}\n")); err != nil {
		return nil, err
	}
	return f, nil
}

// Write makes the folder hold these files and returns the first error; what could be written is.
func (f *Folder) Write(files []File) error {
	var first error
	for _, file := range files {
		last, had := f.last[file.Name]
		if had && bytes.Equal(last, file.Data) && (last == nil) == (file.Data == nil) {
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
