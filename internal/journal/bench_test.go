package journal

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// BenchmarkEmit stores 800-byte events: one at a time, in calls of 256, and by 16 sources at once.
func BenchmarkEmit(b *testing.B) {
	text := strings.Repeat("x", 700)
	for _, sync := range []time.Duration{time.Minute, 0} {
		for _, size := range []int{1, 256} {
			b.Run(fmt.Sprintf("sync=%v/call=%d", sync, size), func(b *testing.B) {
				emit := openBench(b, sync).Emitter("bench")
				for n := 0; n < b.N; n += size {
					evs := make([]*eventpb.Event, size)
					for i := range evs {
						evs[i] = mark("%s", text)
					}
					if err := emit(context.Background(), evs...); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
		b.Run(fmt.Sprintf("sync=%v/sources=16", sync), func(b *testing.B) {
			benchSources(b, openBench(b, sync), 16, text)
		})
	}
}

func openBench(b *testing.B, sync time.Duration) *Journal {
	j, err := Open(b.TempDir(), Options{Node: "n1", Sync: sync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { j.Close(context.Background()) })
	return j
}

func benchSources(b *testing.B, j *Journal, sources int, text string) {
	var wg sync.WaitGroup
	for s := range sources {
		wg.Go(func() {
			emit := j.Emitter(fmt.Sprint("s", s))
			for n := 0; n < b.N; n += sources {
				if err := emit(context.Background(), mark("%s", text)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkRead reads what is stored.
func BenchmarkRead(b *testing.B) {
	j := openTest(b, b.TempDir(), Options{Sync: time.Minute})
	text := strings.Repeat("x", 700)
	for n := 0; n < b.N; n += 256 {
		evs := make([]*eventpb.Event, 256)
		for i := range evs {
			evs[i] = mark("%s", text)
		}
		if err := j.Emitter("bench")(context.Background(), evs...); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	if err := j.Read(context.Background(), 1, 0, func(Record) error { return nil }); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkTape writes and reads a tape of 800-byte events.
func BenchmarkTape(b *testing.B) {
	ev := mark("%s", strings.Repeat("x", 700))
	var tape bytes.Buffer
	b.Run("write", func(b *testing.B) {
		tape.Reset()
		w, err := NewTapeWriter(&tape, &eventpb.TapeHeader{})
		if err != nil {
			b.Fatal(err)
		}
		for i := range b.N {
			ev.Id, ev.SeenNs = fmt.Sprint("n1-bench-r-", i), int64(i)*1e6
			data, _ := proto.Marshal(ev)
			if err := w.Write(Record{Seq: uint64(i + 1), Data: data}); err != nil {
				b.Fatal(err)
			}
		}
		w.Close()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("read", func(b *testing.B) {
		t, err := ReadTape(bytes.NewReader(tape.Bytes()), int64(tape.Len()), "bench")
		if err != nil {
			b.Fatal(err)
		}
		defer t.Close()
		n := 0
		for n < b.N {
			t.Read(b.Context(), 0, 0, func(Record) error { n++; return nil })
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
	})
}
