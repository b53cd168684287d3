package journal_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
)

const packVictim = "TAPEDECK_PACK_VICTIM"

// TestPackVictim is the process that TestPackIsKilled kills: it writes half a tape, says so, and waits.
func TestPackVictim(t *testing.T) {
	path := os.Getenv(packVictim)
	if path == "" {
		t.Skip("only as a child of TestPackIsKilled")
	}
	_ = journal.WriteTapeFile(path, &eventpb.TapeHeader{}, func(w *journal.TapeWriter) error {
		for seq := uint64(1); seq < 10; seq++ {
			if err := w.Write(journal.Record{Seq: seq, Data: make([]byte, 1<<20)}); err != nil {
				return err
			}
		}
		os.Stdout.WriteString("half\n")
		select {}
	})
}

// A program that is killed while it packs leaves no half tape, and what was there stays.
func TestPackIsKilled(t *testing.T) {
	for name, before := range map[string]string{"nothing": "", "an older tape": "old"} {
		path := filepath.Join(t.TempDir(), "a.tape")
		if before != "" {
			if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestPackVictim$")
		cmd.Env = append(os.Environ(), packVictim+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "half\n" {
			t.Errorf("the child said %q: %v", line, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed
		b, err := os.ReadFile(path)
		if before == "" && !os.IsNotExist(err) || string(b) != before {
			t.Errorf("where %s was there are now %d bytes, %v", name, len(b), err)
		}
	}
}
