package projections

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// missed is what a source did not see for one reason: from its first gap to its last, with less than gapsApart between them.
type missed struct {
	fromNs, toNs int64
	toldNs       int64 // when the last of them was told
}

type missedKey struct {
	source string
	reason eventpb.GapReason
}

// gapsApart parts what was missed twice from what is being missed: a source that loses something again and again tells of
// each loss.
const gapsApart = time.Minute

func (s *State) applyGap(name string, g *eventpb.Gap) {
	src := s.source(name)
	src.Gaps++
	src.LastGap = &Gap{g.FromNs, g.ToNs, g.Reason, g.Count, g.Detail}
	k := missedKey{name, g.Reason}
	if m := s.missed[k]; m == nil {
		s.missed[k] = &missed{g.FromNs, g.ToNs, s.SeenNs}
	} else {
		m.toNs, m.toldNs = max(m.toNs, g.ToNs), s.SeenNs
	}
	s.touch(topicSources)
	s.touch(topicGaps)
}

// closeGaps forgets what was missed of sources that have seen all since.
func (s *State) closeGaps() {
	for k, m := range s.missed {
		// A wall clock that was set back would keep them for long.
		if since := s.SeenNs - m.toldNs; since >= int64(gapsApart) || since < -int64(gapsApart) {
			delete(s.missed, k)
			s.touch(topicGaps)
		}
	}
}

func (s *State) missedKeys() []missedKey {
	return slices.SortedFunc(maps.Keys(s.missed), func(a, b missedKey) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.reason, b.reason))
	})
}

func (s *State) missedMessages() []*eventpb.MissedKnown {
	var list []*eventpb.MissedKnown
	for _, k := range s.missedKeys() {
		m := s.missed[k]
		list = append(list, &eventpb.MissedKnown{Source: k.source, Reason: k.reason, FromNs: m.fromNs, ToNs: m.toNs, ToldNs: m.toldNs})
	}
	return list
}
