package bpfmap

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"golang.org/x/sys/unix"
)

// TestReadOnlyPin: a pin of mode 0444 can be opened by one who is not above file modes, though not by default
// (libbpf-rs#1417).
func TestReadOnlyPin(t *testing.T) {
	n := newNode(t)
	m := n.Pin(backendName, ebpf.Hash, 4, 12, 64)
	put(t, m, 1, make([]byte, 12))
	path := n.Path(backendName)
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // in a thread that ends with it
		defer close(done)
		runtime.LockOSThread()
		dropOverride(t)
		_, err := ebpf.LoadPinnedMap(filepath.Join(n.Dir, pinFolder, backendName), nil)
		if !isForbidden(err) {
			t.Errorf("opened to be written: %v", err)
		}
		table, err := openTable(n.Dir, pin{name: backendName, kind: cilium.Backends4}, time.Now())
		if err != nil {
			t.Errorf("opened to be read: %v", err)
			return
		}
		defer table.close()
		if err := table.walker.read(t.Context(), table.cur); err != nil || table.cur.n != 1 {
			t.Errorf("read %d entries, %v", table.cur.n, err)
		}
	}()
	<-done
}

// dropOverride takes from this thread the right to pass over file modes.
func dropOverride(t *testing.T) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Error(err)
	}
	data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	if err := unix.Capset(&header, &data[0]); err != nil {
		t.Error(err)
	}
}
