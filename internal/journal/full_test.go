package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

const exitNoMount = 3

// A disk that is full for a while: sources wait, nothing that was acknowledged is lost or doubled, and the time is
// a gap. On a file system of its own, in a mount namespace of its own.
func TestFullDisk(t *testing.T) {
	for _, mode := range []string{"full", "full-sync"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel() // each waits five seconds for an answer that does not come
			cmd := childCommand(t, t.TempDir(), mode)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
			if os.Geteuid() != 0 {
				cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
			}
			err := cmd.Run()
			var exit *exec.ExitError
			switch {
			case errors.Is(err, syscall.EPERM), errors.As(err, &exit) && exit.ExitCode() == exitNoMount:
				t.Skip("no file system can be mounted here: ", err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// childFull runs in its own mount namespace; dir is where the small file system goes.
func childFull(dir string, always bool) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		os.Exit(exitNoMount)
	}
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=24m"); err != nil {
		os.Exit(exitNoMount)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 16<<20), 0o600); err != nil {
		return err
	}
	log := &logWatch{said: make(chan string, 100)}
	o := Options{Node: "n1", Sync: time.Minute, Logger: slog.New(log)}
	if always {
		o.Sync = 0
	}
	j, err := Open(filepath.Join(dir, "session"), o)
	if err != nil {
		return err
	}
	const n = 120 // of 100 kB each: more than is free, less than when the ballast is gone
	emitted := make(chan error, 1)
	go func() { emitted <- emitBig(j.Emitter("bpfmap"), n) }()
	select {
	case <-log.said:
	case err := <-emitted:
		return fmt.Errorf("the disk never was full: %v", err)
	}
	if err := checkReadable(j); err != nil {
		return err
	}
	if err := checkFilesBeside(j, dir); err != nil {
		return err
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := <-emitted; err != nil {
		return err
	}
	if err := checkFull(j, n, log); err != nil {
		return err
	}
	return j.Close(context.Background())
}

func emitBig(emit events.Emit, n int) error {
	for range n {
		ev := events.New(&eventpb.MapDeltas{Maps: []*eventpb.MapDelta{{Upserts: make([]byte, 100_000)}}})
		if err := emit(context.Background(), ev); err != nil {
			return err
		}
	}
	return nil
}

// checkReadable: what is stored can be read while nothing can be written.
func checkReadable(j *Journal) error {
	_, last, err := j.Bounds()
	if err != nil {
		return fmt.Errorf("bounds of a full journal: %w", err)
	}
	n := uint64(0)
	err = j.Read(context.Background(), 1, last, func(Record) error { n++; return nil })
	if n != last || err != nil {
		return fmt.Errorf("read %d of %d from a full journal: %v", n, last, err)
	}
	return nil
}

// checkFilesBeside: a keyframe and a tape for which there is no room say so, leave nothing of themselves, and what was
// there before them.
func checkFilesBeside(j *Journal, dir string) error {
	before, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	keyframe := WriteKeyframe(filepath.Join(dir, "9.keyframe"), &eventpb.TapeKeyframe{Seq: 9}, noise(1<<20))
	pack := WriteTapeFile(filepath.Join(dir, "a.tape"), &eventpb.TapeHeader{}, func(w *TapeWriter) error {
		for seq := uint64(1); seq < 20; seq++ {
			if err := w.Write(Record{Seq: seq, Data: noise(1 << 20)}); err != nil {
				return err
			}
		}
		return nil
	})
	for what, err := range map[string]error{"keyframe": keyframe, "tape": pack} {
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("a %s on a full disk: %v", what, err)
		}
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(before) {
		return fmt.Errorf("%d files beside the session, were %d: %v", len(after), len(before), err)
	}
	return nil
}

// noise does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

func checkFull(j *Journal, n uint64, log *logWatch) error {
	var gaps, next uint64 = 0, 1
	err := j.Read(context.Background(), 1, 0, func(r Record) error {
		ev := &eventpb.Event{}
		if err := proto.Unmarshal(r.Data, ev); err != nil {
			return err
		}
		if g := ev.GetGap(); g != nil {
			gaps++
			if g.Reason != eventpb.GapReason_GAP_REASON_JOURNAL || g.ToNs <= g.FromNs || g.Count != 0 ||
				!strings.Contains(g.Detail, "no space left on device") {
				return fmt.Errorf("gap %v", g)
			}
			return nil
		}
		if ev.SourceSeq != next {
			return fmt.Errorf("event %d where %d belongs", ev.SourceSeq, next)
		}
		next++
		return nil
	})
	switch {
	case err != nil:
		return err
	case next != n+1 || gaps == 0:
		return fmt.Errorf("%d events and %d gaps", next-1, gaps)
	case log.times("cannot be written") != int(gaps) || log.times("can be written again") != int(gaps):
		return fmt.Errorf("%d gaps, log: %q", gaps, log.lines)
	}
	return nil
}

// logWatch tells when the journal says that it cannot be written.
type logWatch struct {
	mu    sync.Mutex
	lines []string
	said  chan string
}

func (l *logWatch) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *logWatch) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *logWatch) WithGroup(string) slog.Handler                    { return l }

func (l *logWatch) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r.Message)
	if strings.Contains(r.Message, "cannot be written") {
		l.said <- r.Message
	}
	return nil
}

func (l *logWatch) times(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.lines {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}
