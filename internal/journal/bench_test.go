package journal

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// BenchmarkEmit stores 800-byte events: one at a time, in calls of 256, and by 16 sources at once.
func BenchmarkEmit(b *testing.B) {
	text := strings.Repeat("x", 700)
	for _, sync := range []time.Duration{time.Minute, 0} {
		for _, size := range []int{1, 256} {
			b.Run(fmt.Sprintf("sync=%v/call=%d", sync, size), func(b *testing.B) {
				emit := openTest(b, b.TempDir(), Options{Sync: sync}).Emitter("bench")
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
			benchSources(b, openTest(b, b.TempDir(), Options{Sync: sync}), 16, text)
		})
	}
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
