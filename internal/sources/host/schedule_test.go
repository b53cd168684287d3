package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// costly takes time for each look and notes when it was made.
type costly struct {
	cost  time.Duration
	looks []time.Time
}

func (c *costly) look(context.Context, *eventpb.HostState) error {
	c.looks = append(c.looks, time.Now())
	time.Sleep(c.cost)
	return nil
}

// play runs a topic for a while, ringing it at each step.
func play(t *testing.T, topic *topic, steps int, step time.Duration, ring bool) {
	t.Helper()
	for range steps {
		if ring {
			topic.ring(time.Now(), 0)
		}
		if _, err := topic.run(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(step)
	}
}

func TestTopicIsLookedAtInItsRhythm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &costly{}
		play(t, &topic{every: time.Second, apart: 10 * time.Millisecond, share: 1, looker: c}, 1000, 10*time.Millisecond, false)
		if len(c.looks) != 10 {
			t.Errorf("%d looks in ten seconds", len(c.looks))
		}
	})
}

func TestTopicKeepsItsBudgetHoweverOftenItRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &costly{cost: 20 * time.Millisecond}
		start := time.Now()
		play(t, &topic{every: 100 * time.Millisecond, apart: 10 * time.Millisecond, share: 0.02, looker: c}, 10000, time.Millisecond, true)
		used := time.Duration(len(c.looks)) * c.cost
		if share := float64(used) / float64(time.Since(start)); share > 0.025 || share < 0.015 {
			t.Errorf("looking took %.3f of the time", share)
		}
	})
}

func TestTopicRingsAfterItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &costly{}
		topic := &topic{every: time.Minute, apart: time.Millisecond, share: 1, looker: c}
		play(t, topic, 1, time.Second, false)
		rang := time.Now()
		topic.ring(rang, 100*time.Millisecond)
		topic.ring(rang, 500*time.Millisecond) // a later wish does not put it off
		play(t, topic, 50, 10*time.Millisecond, false)
		if len(c.looks) != 2 || c.looks[1].Sub(rang) != 100*time.Millisecond {
			t.Errorf("looked at %v, rang at %v", c.looks, rang)
		}
	})
}

func TestLateLookIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := &topic{name: "pod sockets", every: 500 * time.Millisecond, share: 1, looker: &costly{}}
		play(t, topic, 1, 0, false)
		from := time.Now()
		time.Sleep(10 * time.Second)
		gap, err := topic.run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if gap.GetReason() != eventpb.GapReason_GAP_REASON_LATE || gap.FromNs != from.UnixNano() ||
			gap.ToNs != time.Now().UnixNano() || gap.Detail != "pod sockets were looked at 9.5s late" {
			t.Errorf("gap %v", gap)
		}
	})
}
