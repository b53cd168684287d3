package recorder

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"golang.org/x/sys/unix"
)

const labTape = "../../testdata/lab.tape"

// recording is a recorder that plays the lab's tape, slowly, until the test ends or stop is called.
type recording struct {
	Options
	stop func()
}

func startRecording(t *testing.T, change func(*Options)) *recording {
	t.Helper()
	dir := t.TempDir()
	r := &recording{Options: Options{
		FromTape: labTape, Speed: 1, Out: filepath.Join(dir, "out"), Session: filepath.Join(dir, "session"),
		Keyframes: 1, Log: slog.New(slog.DiscardHandler),
	}}
	change(&r.Options)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, r.Options) }()
	stopped := false
	r.stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

func there(path string) bool { _, err := os.Stat(path); return err == nil }

// Whoever is not the recorder's user reads nothing of a session, its control socket and token included, nor of a packed
// tape, whatever the umask.
func TestSessionIsClosedToOthers(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	r := startRecording(t, func(o *Options) {
		if err := os.Mkdir(o.Session, 0o777); err != nil { // somebody made it before
			t.Fatal(err)
		}
		o.Speed, o.Listen.Address = 100, "127.0.0.1:0"
	})
	keyframes := func() bool {
		found, _ := filepath.Glob(filepath.Join(r.Session, "keyframes", "*.keyframe"))
		return len(found) > 0
	}
	sourcetest.Until(t, func() bool {
		return there(filepath.Join(r.Session, controlSocket)) && there(filepath.Join(r.Session, tokenFile)) && keyframes()
	})
	closed(t, r.Session)
	tape := filepath.Join(t.TempDir(), "packed.tape")
	if err := Pack(t.Context(), r.Session, tape, false); err != nil {
		t.Fatal(err)
	}
	r.stop()
	closed(t, r.Session)
	closed(t, tape)
}

// closed walks a folder or a file.
func closed(t *testing.T, path string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the store replaces files as it goes on
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%s: %d files, %v", path, files, err)
	}
}

// No port is open, of no protocol, unless --listen opens one, and that is one of loopback.
func TestPortsThatAreOpen(t *testing.T) {
	for name, c := range map[string]struct {
		listen string
		want   []string
	}{
		"as it is":    {"", nil},
		"with listen": {"0", []string{"tcp 0100007F"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRecording(t, func(o *Options) {
				if c.listen != "" {
					var err error
					if o.Listen.Address, err = ListenAddress(c.listen); err != nil {
						t.Fatal(err)
					}
				}
			})
			sourcetest.Until(t, func() bool {
				return there(filepath.Join(r.Session, controlSocket)) && there(filepath.Join(r.Out, "session.json"))
			})
			if diff := cmp.Diff(c.want, openPorts(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// openPorts are this process's sockets that anyone may send to, by what the kernel says: protocol and local address.
func openPorts(t *testing.T) (list []string) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(fds) == 0 {
		t.Fatal("no descriptors", err)
	}
	ours := map[string]bool{}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			ours[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, protocol := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile("/proc/self/net/" + protocol)
		if err != nil {
			continue // a kernel without IPv6
		}
		for row := range strings.Lines(string(text)) {
			const local, state, inode, listening = 1, 3, 9, "0A"
			columns := strings.Fields(row)
			if len(columns) <= inode || !ours[columns[inode]] || strings.HasPrefix(protocol, "tcp") && columns[state] != listening {
				continue
			}
			address, _, _ := strings.Cut(columns[local], ":")
			list = append(list, protocol+" "+address)
		}
	}
	return list
}
