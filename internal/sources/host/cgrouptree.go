package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rootCgroup is the id of the cgroup that all others are below, in every kernel.
const rootCgroup = 1

// cgroupDir is a cgroup of version 2, open.
type cgroupDir struct {
	*os.File
	id   uint64 // which is the folder's inode
	name string // its path
}

func openCgroup(path string) (*cgroupDir, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return identify(dir, path)
}

func identify(dir *os.File, name string) (*cgroupDir, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return nil, fmt.Errorf("read cgroup: %w", err)
	}
	return &cgroupDir{dir, st.Ino, name}, nil
}

// cgroupTree finds cgroups by id, wherever the whole hierarchy is mounted.
type cgroupTree struct {
	root, proc string

	mount string // of the hierarchy, as the node names it; empty while none is known
	below string // what stands before the node's paths here: nothing, or the root of its first process
}

// find looks for a mount of the whole hierarchy, as this process or the node's first one sees it.
func (t *cgroupTree) find() bool {
	for _, below := range []string{"", filepath.Join(t.proc, "1/root")} {
		for _, path := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", t.root} {
			if t.mount != "" {
				return true
			}
			var fs unix.Statfs_t
			var st unix.Stat_t
			at := filepath.Join(below, path)
			if unix.Statfs(at, &fs) == nil && uint32(fs.Type) == unix.CGROUP2_SUPER_MAGIC && unix.Stat(at, &st) == nil && st.Ino == rootCgroup {
				t.mount, t.below = path, below
			}
		}
	}
	return t.mount != ""
}

// open opens a cgroup by id, by a handle as name_to_handle_at gives it: the kind FILEID_KERNFS and the id.
func (t *cgroupTree) open(id uint64) (*cgroupDir, error) {
	if !t.find() {
		return nil, errors.New("open cgroup: the whole hierarchy is not mounted")
	}
	mount, err := os.Open(filepath.Join(t.below, t.mount))
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	defer mount.Close()
	const kernfs = 0xfe
	handle := make([]byte, 8)
	nl.NativeEndian().PutUint64(handle, id)
	fd, err := unix.OpenByHandleAt(int(mount.Fd()), unix.NewFileHandle(kernfs, handle), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open cgroup %d: %w", id, err)
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		path = ""
	}
	return identify(os.NewFile(uintptr(fd), path), strings.TrimPrefix(path, t.below))
}

// name gives a cgroup that is not the top of the hierarchy its place in it: where it is mounted says nothing.
func (t *cgroupTree) name(dir *cgroupDir) error {
	if dir.id == rootCgroup {
		return nil
	}
	same, err := t.open(dir.id)
	if err != nil {
		return err
	}
	dir.name = same.name
	return same.Close()
}

// above opens the cgroups above one, from the nearest on. There are none when its place is not known.
func (t *cgroupTree) above(dir *cgroupDir) (list []*cgroupDir) {
	if dir.id == rootCgroup || !t.find() || !strings.HasPrefix(dir.name, t.mount+"/") {
		return nil
	}
	for path := dir.name; path != t.mount; {
		path = filepath.Dir(path)
		if d, err := openCgroup(filepath.Join(t.below, path)); err == nil {
			d.name = path
			list = append(list, d)
		}
	}
	return list
}
