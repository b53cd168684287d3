// Package bpfmaptest makes a node's BPF file system, for tests.
package bpfmaptest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// pinFolder is where Cilium pins its maps.
const pinFolder = "tc/globals"

// Node is a BPF file system with Cilium's folder, made for one test.
type Node struct {
	Dir string // where it is mounted
	TB  testing.TB
}

// New mounts one; without root or BPF the test is skipped.
func New(tb testing.TB) *Node {
	tb.Helper()
	return Mount(tb, tb.TempDir())
}

// Mount mounts it at a folder that is there.
func Mount(tb testing.TB, dir string) *Node {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root: it mounts a BPF file system and makes maps in the kernel")
	}
	if err := unix.Mount("bpffs", dir, "bpf", 0, ""); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
			tb.Skipf("needs a kernel and the right to mount a BPF file system: %v", err)
		}
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := os.MkdirAll(filepath.Join(dir, pinFolder), 0o755); err != nil {
		tb.Fatal(err)
	}
	return &Node{dir, tb}
}

// Path is a pin's file.
func (n *Node) Path(name string) string { return filepath.Join(n.Dir, pinFolder, name) }

// Pin makes a map and pins it, in place of one that had the name.
func (n *Node) Pin(name string, typ ebpf.MapType, keySize, valueSize, maxEntries uint32) *ebpf.Map {
	n.TB.Helper()
	flags := uint32(0)
	if typ == ebpf.LPMTrie {
		flags = unix.BPF_F_NO_PREALLOC
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: typ, KeySize: keySize, ValueSize: valueSize, MaxEntries: maxEntries, Flags: flags})
	if err != nil {
		n.TB.Skipf("cannot make a map in the kernel: %v", err)
	}
	n.TB.Cleanup(func() { _ = m.Close() })
	n.Unpin(name)
	if err := m.Pin(n.Path(name)); err != nil {
		n.TB.Fatal(err)
	}
	return m
}

// Unpin takes a pin away, if there is one.
func (n *Node) Unpin(name string) {
	n.TB.Helper()
	if err := os.Remove(n.Path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.TB.Fatal(err)
	}
}
