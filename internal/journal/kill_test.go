package journal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// childEnv makes this test binary a child that does what childMode says on the folder.
const (
	childEnv  = "TAPEDECK_TEST_JOURNAL"
	childMode = "TAPEDECK_TEST_MODE"
)

func childMain(dir string) int {
	var err error
	switch mode := os.Getenv(childMode); mode {
	case "sync", "nosync":
		err = childEmit(dir, mode == "sync")
	case "full", "full-sync":
		err = childFull(dir, mode == "full-sync")
	default:
		err = fmt.Errorf("mode %q", mode)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

// childEmit emits for ever, from three sources, and prints the id of each event once it is acknowledged.
func childEmit(dir string, always bool) error {
	o := Options{Node: "n1", Sync: time.Minute}
	if always {
		o.Sync = 0
	}
	j, err := Open(dir, o)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for s := range 3 {
		go func() {
			emit := j.Emitter(fmt.Sprint("s", s))
			for i := 0; ; i++ {
				evs := []*eventpb.Event{mark("%s", strings.Repeat("x", i%2000)), mark("y")}
				if err := emit(context.Background(), evs...); err != nil {
					failed <- err
				}
				fmt.Printf("%s\n%s\n", evs[0].Id, evs[1].Id) // one write: not torn by the other sources
			}
		}()
	}
	return <-failed
}

func childCommand(t *testing.T, dir, mode string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, childMode+"="+mode)
	cmd.Stderr = os.Stderr
	return cmd
}

// killAfter runs a child until it acknowledged n events, kills it, and returns the acknowledged ids.
func killAfter(t *testing.T, dir, mode string, n int) []string {
	t.Helper()
	cmd := childCommand(t, dir, mode)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var acked []string
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if acked = append(acked, strings.TrimSuffix(line, "\n")); len(acked) == n {
			cmd.Process.Kill()
		}
	}
	cmd.Wait()
	if len(acked) < n {
		t.Fatalf("the child ended by itself after %d events", len(acked))
	}
	return acked
}

// nats-server#6888 and style: kill -9 while publishing loses nothing that was acknowledged, doubles nothing, and
// keeps each source's order, over and over on one folder.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	for mode, kills := range map[string]int{"nosync": 10, "sync": 4} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			var acked []string
			for i := range kills {
				acked = append(acked, killAfter(t, dir, mode, 100+60*i)...)
			}
			checkKilled(t, openTest(t, dir, Options{}), acked, kills)
		})
	}
}

func checkKilled(t *testing.T, j *Journal, acked []string, kills int) {
	t.Helper()
	stored := map[string]int{}
	next := map[string]uint64{} // by run and source
	var seq uint64
	err := j.Read(context.Background(), 1, 0, func(r Record) error {
		ev := decode(t, r.Data)
		stored[ev.Id]++
		run := ev.Id[:strings.LastIndex(ev.Id, "-")]
		if next[run]++; ev.SourceSeq != next[run] {
			t.Errorf("%s stands where number %d belongs", ev.Id, next[run])
		}
		if seq++; r.Seq != seq {
			t.Errorf("position %d where %d belongs", r.Seq, seq)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, n := range stored {
		if n != 1 {
			t.Errorf("%s is stored %d times", id, n)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(acked), func(id string) bool { return stored[id] > 0 })
	if len(missing) > 0 || len(next) < kills {
		t.Errorf("%d of %d acknowledged events are missing; %d runs", len(missing), len(acked), len(next))
	}
	t.Logf("%d acknowledged, %d stored", len(acked), len(stored))
}
