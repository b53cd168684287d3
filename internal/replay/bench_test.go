package replay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
	"github.com/tapedeck-io/tapedeck/internal/sources/hubble"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// TAPEDECK_FACTS is how large BenchmarkMoment's session is; smaller ones are for trying it.
const bigFacts = 10_000_000

// BenchmarkMoment opens random moments of a session of ten million facts, each as a command does: open the tape, find
// the moment, fold up to it, render the files.
func BenchmarkMoment(b *testing.B) {
	path, facts := bigTape(b)
	rng := rand.New(rand.NewPCG(1, 2))
	session := openBench(b, path)
	h := session.Tape.Header()
	span := time.Duration(h.LastNs - h.FirstNs)
	session.Close()
	var took []time.Duration
	for b.Loop() {
		at := Moment{kind: afterStart, by: time.Duration(rng.Int64N(int64(span)))}
		start := time.Now()
		s := openBench(b, path)
		st, err := s.State(context.Background(), at)
		if err != nil {
			b.Fatal(err)
		}
		if len(st.Files()) < 9 {
			b.Fatal("files are missing")
		}
		took = append(took, time.Since(start))
		s.Close()
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	ms := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1e3 }
	b.ReportMetric(float64(facts), "facts")
	b.ReportMetric(float64(info.Size())/float64(facts), "tape-bytes/fact")
	b.ReportMetric(ms(.5), "p50-ms")
	b.ReportMetric(ms(.99), "p99-ms")
	b.ReportMetric(ms(1), "max-ms")
}

func openBench(b *testing.B, path string) *Session {
	s, err := Open(context.Background(), path)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkFold reads a tape of flows and folds it, and lets hubble (where TAPEDECK_HUBBLE names it) read the same
// flows from a file.
func BenchmarkFold(b *testing.B) {
	const flows = 40_000
	flowEvents := labFlows(b)
	var list []*eventpb.Event
	n := 0
	for i := 0; n < flows; i++ {
		e := proto.CloneOf(flowEvents[i%len(flowEvents)])
		list = append(list, e)
		n += len(e.GetFlows().GetFlows())
	}
	dir := b.TempDir()
	tape, lines := filepath.Join(dir, "flows.tape"), filepath.Join(dir, "flows.jsonl")
	writeTape(b, tape, list, false)
	var ours float64
	b.Run("replay", func(b *testing.B) {
		for b.Loop() {
			s := openBench(b, tape)
			st, err := s.State(context.Background(), Moment{})
			if err != nil || st.Flows != uint64(n) {
				b.Fatalf("%d flows of %d: %v", st.Flows, n, err)
			}
			s.Close()
		}
		ours = float64(n) * float64(b.N) / b.Elapsed().Seconds()
		b.ReportMetric(ours, "flows/s")
	})
	b.Run("hubble", func(b *testing.B) {
		program := os.Getenv("TAPEDECK_HUBBLE")
		if _, err := exec.LookPath(program); err != nil {
			b.Skipf("needs hubble's command, named by TAPEDECK_HUBBLE: %v", err)
		}
		writeLines(b, lines, list)
		for b.Loop() {
			out, err := exec.Command(program, "observe", "--input-file", lines, "-o", "compact").Output()
			if err != nil {
				b.Fatal(err)
			}
			if got := bytes.Count(out, []byte("\n")); got != n {
				b.Fatalf("hubble printed %d lines of %d flows", got, n)
			}
		}
		theirs := float64(n) * float64(b.N) / b.Elapsed().Seconds()
		b.ReportMetric(theirs, "flows/s")
		if ours > 0 {
			b.ReportMetric(ours/theirs, "replay-is-×")
		}
	})
}

// BenchmarkFlowBytes tells what a recorded flow takes on a tape that holds flows as they were recorded in the lab,
// and what it takes as Hubble's JSON.
func BenchmarkFlowBytes(b *testing.B) {
	list := labFlows(b)
	dir := b.TempDir()
	tape, lines := filepath.Join(dir, "flows.tape"), filepath.Join(dir, "flows.jsonl")
	n := 0
	for _, e := range list {
		n += len(e.GetFlows().GetFlows())
	}
	for b.Loop() {
		writeTape(b, tape, list, true)
	}
	writeLines(b, lines, list)
	for name, path := range map[string]string{"tape-bytes/flow": tape, "json-bytes/flow": lines} {
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/float64(n), name)
	}
	b.ReportMetric(float64(n), "flows")
}

// labEvents are those of the lab's tape.
func labEvents(b *testing.B) []*eventpb.Event {
	s := openBench(b, labTape)
	defer s.Close()
	var list []*eventpb.Event
	err := s.Tape.Read(context.Background(), 0, 0, func(r journal.Record) error {
		e := &eventpb.Event{}
		list = append(list, e)
		return proto.Unmarshal(r.Data, e)
	})
	if err != nil {
		b.Fatal(err)
	}
	return list
}

func labFlows(b *testing.B) []*eventpb.Event {
	return slices.DeleteFunc(labEvents(b), func(e *eventpb.Event) bool { return len(e.GetFlows().GetFlows()) == 0 })
}

func writeTape(b *testing.B, path string, list []*eventpb.Event, keyframes bool) {
	h := &eventpb.TapeHeader{FirstSeq: 1, LastSeq: uint64(len(list))}
	err := journal.WriteTapeFile(path, h, func(w *journal.TapeWriter) error {
		write := w.Write
		if keyframes {
			write = recorder.NewPacker(w).Write
		}
		for i, e := range list {
			data, err := proto.Marshal(e)
			if err == nil {
				err = write(journal.Record{Seq: uint64(i + 1), Data: data})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// writeLines writes flows as `hubble observe -o jsonpb` does.
func writeLines(b *testing.B, path string, list []*eventpb.Event) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for _, e := range list {
		for i := range e.GetFlows().GetFlows() {
			line, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(hubble.Expand(e.GetFlows(), i))
			if err != nil {
				b.Fatal(err)
			}
			fmt.Fprintf(w, "{\"flow\":%s}\n", line)
		}
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		b.Fatal(err)
	}
}

// bigTape makes the session: the lab's own, then hours of traffic and churn on a node with 150,000 connections.
func bigTape(b *testing.B) (path string, facts int) {
	want := bigFacts
	if n, err := strconv.Atoi(os.Getenv("TAPEDECK_FACTS")); err == nil {
		want = n
	}
	rng := rand.New(rand.NewPCG(3, 4))
	base := labEvents(b)
	last := base[len(base)-1]
	g := &bigSession{rng: rng, flows: variants(b, base, rng), last: last}
	steps := g.steps(want)
	path = filepath.Join(b.TempDir(), "big.tape")
	h := &eventpb.TapeHeader{
		FirstSeq: 1, LastSeq: uint64(len(base) + steps),
		FirstNs: base[0].SeenNs, LastNs: last.SeenNs + int64(steps)*bigStep.Nanoseconds(),
	}
	err := journal.WriteTapeFile(path, h, func(w *journal.TapeWriter) error {
		p := recorder.NewPacker(w)
		for i := range int(h.LastSeq) {
			e := g.next
			if i < len(base) {
				e = func(int) *eventpb.Event { return base[i] }
			}
			data, err := proto.Marshal(e(i - len(base)))
			if err == nil {
				err = p.Write(journal.Record{Seq: uint64(i + 1), Data: data})
			}
			if err != nil {
				return err
			}
		}
		return p.Finish()
	})
	if err != nil {
		b.Fatal(err)
	}
	return path, g.facts
}
