package bpfmap

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"golang.org/x/sys/unix"
)

// defaultBPFFS is where a node has its BPF file system.
const defaultBPFFS = "/sys/fs/bpf"

// pinFolder is where Cilium pins its maps, below the BPF file system.
const pinFolder = "tc/globals"

// pin is one map's name in the BPF file system.
type pin struct {
	name string
	kind cilium.Kind
	// inode is another one when the name was taken away and given again, whether to the same map or not.
	inode uint64
}

// pins lists the maps of Cilium that are pinned below bpffs and wanted, ascending by name. Every error is a Trouble.
func pins(bpffs string, wanted func(cilium.Kind) bool) ([]pin, error) {
	dir := filepath.Join(bpffs, pinFolder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, dirTrouble(bpffs, dir, err)
	}
	var list []pin
	for _, e := range entries {
		kind := cilium.KindOf(e.Name())
		if kind == cilium.Unknown || !wanted(kind) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // gone since
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if ok && info.Mode().IsRegular() {
			list = append(list, pin{name: e.Name(), kind: kind, inode: stat.Ino})
		}
	}
	return list, nil
}

// folder tells one state of the folder of the pins from another: names that come, go or are replaced move its time.
type folder struct {
	inode    uint64
	modified syscall.Timespec
	// settled says that the time is no part of the clock's present tick, in which names could still change unseen.
	settled bool
}

// folderAt is the folder at now. Where it cannot be looked at, it is not settled.
func folderAt(bpffs string, now time.Time) folder {
	var stat syscall.Stat_t
	if err := syscall.Stat(filepath.Join(bpffs, pinFolder), &stat); err != nil {
		return folder{}
	}
	age := now.Sub(time.Unix(stat.Mtim.Unix()))
	return folder{stat.Ino, stat.Mtim, age > tick}
}

// tick is longer than the kernel's clock for files stands still.
const tick = 100 * time.Millisecond

// mounted checks that there is a BPF file system at bpffs.
func mounted(bpffs string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(bpffs, &stat); err != nil {
		return &events.Trouble{Thing: bpffs, Cause: err, Mend: "mount the node's /sys/fs/bpf there, or name its place with --bpffs"}
	}
	if uint32(stat.Type) != unix.BPF_FS_MAGIC {
		return &events.Trouble{Thing: bpffs, Cause: errors.New("not a BPF file system"),
			Mend: "mount the node's /sys/fs/bpf there (in a pod: hostPath with mountPropagation HostToContainer), or name its place with --bpffs"}
	}
	return nil
}

// mendFiles is for pins that belong to root and are closed to others.
const mendFiles = "run as root, or give the recorder CAP_DAC_READ_SEARCH"

func dirTrouble(bpffs, dir string, err error) error {
	if notMounted := mounted(bpffs); notMounted != nil {
		return notMounted
	}
	t := &events.Trouble{Thing: dir, Cause: err, Mend: mendFiles}
	if errors.Is(err, fs.ErrNotExist) {
		t.Cause, t.Mend = errors.New("no Cilium maps are pinned here"), "start the Cilium agent on this node"
	}
	return t
}
