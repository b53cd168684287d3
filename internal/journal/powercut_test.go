package journal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// disk is an ext4 file system on a loop device, of which the power can be cut: what was not written to the device
// is gone, and the next mount replays the file system's journal.
type disk struct {
	t          *testing.T
	image, dir string // dir is where it is mounted
	boots      int
	cutAt      int64
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v %s", err, out)
	}
	d := &disk{t: t, image: image, dir: t.TempDir()}
	d.mount()
	t.Cleanup(func() { unix.Unmount(d.dir, 0) })
	return d
}

func (d *disk) mount() {
	d.t.Helper()
	out, err := exec.Command("losetup", "--find", "--show", d.image).CombinedOutput()
	if err != nil {
		d.t.Skipf("losetup: %v %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	mounted := unix.Mount(device, d.dir, "ext4", 0, "")
	if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil { // when it is unmounted
		d.t.Errorf("losetup --detach: %v %s", err, out)
	}
	if mounted != nil {
		d.t.Fatal("mount: ", mounted)
	}
}

// cut cuts the power: from here on nothing reaches the device, not even the file system's own journal.
func (d *disk) cut() {
	const shutdown, noLogFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH of fs/ext4/ext4.h
	root, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer root.Close()
	d.cutAt = time.Now().UnixNano()
	if err := unix.IoctlSetPointerInt(int(root.Fd()), shutdown, noLogFlush); err != nil {
		d.t.Fatal("shut the file system down: ", err)
	}
}

// boot mounts a copy of what the cut left. The disk itself may still be mounted in a mount namespace that another
// process made meanwhile: mounted again it would be the same file system, which stays cut.
func (d *disk) boot() {
	d.t.Helper()
	if err := unix.Unmount(d.dir, 0); err != nil {
		d.t.Fatal("unmount: ", err)
	}
	left := d.image
	d.boots++
	d.image = fmt.Sprint(filepath.Join(filepath.Dir(left), "image"), d.boots)
	if out, err := exec.Command("cp", "--sparse=always", left, d.image).CombinedOutput(); err != nil {
		d.t.Fatalf("copy the disk: %v %s", err, out)
	}
	os.Remove(left) // its blocks go when the last mount does
	d.mount()
}

// nats-server#7564: what was acknowledged is on the disk, at once or within a second, by the sync policy, over many
// cuts of one session. Cuts soon after its beginning find what is not synced when a session is begun.
func TestPowerCut(t *testing.T) {
	for mode, most := range map[string]time.Duration{"always": 0, "1s": time.Second} {
		t.Run(mode, func(t *testing.T) {
			random := rand.New(rand.NewPCG(3, 4))
			for _, first := range []int{1, 40} {
				c := cutter{disk: newDisk(t), mode: mode, most: most}
				c.round(first)
				for range rounds(1) {
					c.round(1 + random.IntN(map[string]int{"always": 2000, "1s": 30_000}[mode]))
				}
			}
		})
	}
}

type cutter struct {
	*disk
	mode string
	most time.Duration // that a cut may lose
	kept []acked       // what earlier cuts left
}

func (c *cutter) round(n int) {
	dir := filepath.Join(c.dir, "session")
	now := emitUntil(c.t, dir, c.mode, n, func(cmd *exec.Cmd) { c.cut(); kill(cmd) })
	c.boot()
	stored := readKilled(c.t, dir)
	if lost := missing(c.kept, stored); len(lost) > 0 {
		c.t.Errorf("%d events that an earlier cut left are gone", len(lost))
	}
	for _, a := range missing(now, stored) {
		// The interval is between syncs, and a sync takes its time. What was acknowledged after the cut began may rest on a
		// sync that it broke off: with the power gone nobody would have been told.
		if age := time.Duration(c.cutAt - a.ns); age > 0 && (c.most == 0 || age > c.most+time.Second) {
			c.t.Fatalf("%s, acknowledged %v before the cut after %d events, is gone", a.id, age, n)
		}
	}
	kept := slices.DeleteFunc(now, func(a acked) bool { return !stored[a.id] })
	c.t.Logf("%d acknowledged, %d kept", n, len(kept))
	c.kept = append(c.kept, kept...)
}
