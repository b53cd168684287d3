package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	case "always":
		err = childEmit(dir, 0)
	case "1s":
		err = childEmit(dir, time.Second)
	case "term":
		err = childTerm(dir)
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

// roundsEnv is how often the tests that kill, cut and fill do so; `make faults` sets it.
const roundsEnv = "TAPEDECK_FAULT_ROUNDS"

func rounds(usual int) int {
	if n, err := strconv.Atoi(os.Getenv(roundsEnv)); err == nil {
		return n
	}
	return usual
}

// childEmit emits for ever, from three sources, and prints each event's id, and when, once it is acknowledged.
func childEmit(dir string, sync time.Duration) error {
	j, err := Open(dir, Options{Node: "n1", Sync: sync})
	if err != nil {
		return err
	}
	return <-emitForEver(j)
}

// childTerm does the same until it gets SIGTERM, and then closes the journal under its sources.
func childTerm(dir string) error {
	j, err := Open(dir, Options{Node: "n1", Sync: time.Second})
	if err != nil {
		return err
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	failed := emitForEver(j)
	<-term
	if err := j.Close(context.Background()); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// emitForEver returns where each of three sources says why it ended.
func emitForEver(j *Journal) <-chan error {
	failed := make(chan error, 3)
	for s := range 3 {
		go func() {
			emit := j.Emitter(fmt.Sprint("s", s))
			for i := 0; ; i++ {
				evs := []*eventpb.Event{mark("%s", strings.Repeat("x", i%2000)), mark("y")}
				if err := emit(context.Background(), evs...); err != nil {
					failed <- err
					return
				}
				now := time.Now().UnixNano()
				fmt.Printf("%s %d\n%s %d\n", evs[0].Id, now, evs[1].Id, now) // one write: not torn by the other sources
			}
		}()
	}
	return failed
}

func childCommand(t *testing.T, dir, mode string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, childMode+"="+mode)
	cmd.Stderr = os.Stderr
	return cmd
}

// acked is an event that the child said is acknowledged, and when, in Unix nanoseconds.
type acked struct {
	id string
	ns int64
}

// emitUntil runs a child until it acknowledged n events, calls end, which must end it or its disk, and returns what
// was acknowledged, up to its end.
func emitUntil(t *testing.T, dir, mode string, n int, end func(*exec.Cmd)) []acked {
	t.Helper()
	cmd := childCommand(t, dir, mode)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var list []acked
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a acked
		if _, err := fmt.Sscan(lines.Text(), &a.id, &a.ns); err != nil {
			t.Fatal(err)
		}
		if list = append(list, a); len(list) == n {
			end(cmd)
		}
	}
	err = cmd.Wait()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) && exit.ExitCode() > 0 {
		t.Errorf("the child failed: %v", err)
	}
	if len(list) < n {
		t.Fatalf("the child ended by itself after %d events", len(list))
	}
	return list
}

func kill(cmd *exec.Cmd) { cmd.Process.Kill() }

// nats-server#6888 and style: kill -9 while publishing loses nothing that was acknowledged, doubles nothing, and
// keeps each source's order, over and over on one folder.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	for mode, kills := range map[string]int{"1s": rounds(10), "always": rounds(4)} {
		t.Run(mode, func(t *testing.T) {
			dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
			var all []acked
			for range kills {
				all = append(all, emitUntil(t, dir, mode, 1+random.IntN(700), kill)...)
			}
			if lost := missing(all, readKilled(t, dir)); len(lost) > 0 {
				t.Errorf("%d of %d acknowledged events are missing", len(lost), len(all))
			}
		})
	}
}

// nats-server#6890: SIGTERM under load ends the server before the process. All that was acknowledged is there, the
// child ends well, and the session can be packed.
func TestTermUnderLoad(t *testing.T) {
	dir := t.TempDir()
	all := emitUntil(t, dir, "term", 2000, func(cmd *exec.Cmd) { cmd.Process.Signal(syscall.SIGTERM) })
	if lost := missing(all, readKilled(t, dir)); len(lost) > 0 {
		t.Errorf("%d of %d acknowledged events are missing", len(lost), len(all))
	}
	if _, err := os.Stat(filepath.Join(blocksOf(dir), "index.db")); err != nil {
		t.Error("the server did not come to its end: ", err)
	}
	j, path := openTest(t, dir, Options{}), filepath.Join(t.TempDir(), "a.tape")
	err := WriteTapeFile(path, &eventpb.TapeHeader{}, func(w *TapeWriter) error { return j.Read(t.Context(), 1, 0, w.Write) })
	if err != nil {
		t.Fatal(err)
	}
	tape, err := OpenTape(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tape.Close()
	if _, last, err := tape.Bounds(); int(last) < len(all) || err != nil || tape.Verify(t.Context()) != nil {
		t.Errorf("tape up to %d of %d, %v, %v", last, len(all), err, tape.Verify(t.Context()))
	}
}

// readKilled opens what is left and returns the ids in it: each once, each source's in order, no position left out.
func readKilled(t *testing.T, dir string) map[string]bool {
	t.Helper()
	j := openTest(t, dir, Options{})
	defer j.Close(context.Background())
	stored := map[string]bool{}
	next := map[string]uint64{} // by run and source
	var seq uint64
	err := j.Read(context.Background(), 1, 0, func(r Record) error {
		ev := decode(t, r.Data)
		if stored[ev.Id] {
			t.Errorf("%s is stored twice", ev.Id)
		}
		stored[ev.Id] = true
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
	return stored
}

func missing(all []acked, stored map[string]bool) []acked {
	return slices.DeleteFunc(slices.Clone(all), func(a acked) bool { return stored[a.id] })
}
