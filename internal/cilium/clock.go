package cilium

import "time"

// Clock is the clock that the datapath takes times in CT and affinity maps from. The zero Clock counts seconds of the
// kernel's monotonic clock (the agent's clock source "ktime"), which stands still while the machine is suspended.
type Clock struct {
	// Hz is the kernel's ticks per second where the agent's clock source is "jiffies": times then count 256 ticks.
	Hz uint32
}

// Instant is one moment as two clocks show it.
type Instant struct {
	Wall      time.Time
	Monotonic time.Duration // CLOCK_MONOTONIC since boot
}

const (
	jiffiesShift = 8
	// The kernel starts its ticks so that their lower 32 bits wrap five minutes after boot.
	ticksWrapAfter = 300
)

// Time is the wall clock time that t, a time of a map, stands for, when at is any one moment. After the machine
// was suspended the result is right for an instant taken since.
func (c Clock) Time(t uint32, at Instant) time.Time {
	return at.Wall.Add(c.sinceBoot(t) - at.Monotonic)
}

// Stamp is what the datapath would write at this reading of CLOCK_MONOTONIC.
func (c Clock) Stamp(monotonic time.Duration) uint32 {
	if c.Hz == 0 {
		return uint32(monotonic / time.Second)
	}
	hz := uint64(c.Hz)
	ticks := uint64(monotonic/time.Second)*hz + uint64(monotonic%time.Second)*hz/uint64(time.Second)
	return uint32((c.bootTicks() + ticks) >> jiffiesShift)
}

func (c Clock) bootTicks() uint64 { return 1<<32 - ticksWrapAfter*uint64(c.Hz) }

func (c Clock) sinceBoot(t uint32) time.Duration {
	if c.Hz == 0 {
		return time.Duration(t) * time.Second
	}
	ticks := int64(uint64(t)<<jiffiesShift) - int64(c.bootTicks())
	hz := int64(c.Hz)
	return time.Duration(ticks/hz)*time.Second + time.Duration(ticks%hz)*time.Second/time.Duration(hz)
}
