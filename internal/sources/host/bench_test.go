package host

import (
	"os"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// BenchmarkLooks is what one look at each topic costs when nothing changed, on the machine's own network or, run
// with lab/exec, on the lab's.
func BenchmarkLooks(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root to read programs")
	}
	r := newRun(New(Config{}).cfg, nil)
	for _, topic := range r.topics {
		if err := topic.look(b.Context(), &eventpb.HostState{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, topic := range r.topics {
		b.Run(topic.name, func(b *testing.B) {
			for b.Loop() {
				if err := topic.look(b.Context(), &eventpb.HostState{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSockets is what it costs to list the sockets of one network in three ways, the last of which only tells
// whether to.
func BenchmarkSockets(b *testing.B) {
	b.Run("diagnosis", func(b *testing.B) {
		for b.Loop() {
			if _, err := dumpSockets(anyState); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("proc", func(b *testing.B) {
		for b.Loop() {
			if _, err := procSockets("/proc/self/net", "tcp"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("counters", func(b *testing.B) {
		for b.Loop() {
			c := counters{}
			c.read("/proc", os.Getpid())
		}
	})
}
