package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func records(from, to uint64, size int) (recs []Record) {
	for seq := from; seq <= to; seq++ {
		recs = append(recs, Record{Seq: seq, Data: make([]byte, size)})
	}
	return recs
}

// A follower gets from memory what is there whole, and else nothing, so that it asks the store.
func TestTailGivesTheNewestRecords(t *testing.T) {
	var s tailState
	check := func(what string, from uint64, first, last uint64) {
		t.Helper()
		var want []uint64
		for seq := first; seq <= last && seq > 0; seq++ {
			want = append(want, seq)
		}
		var got []uint64
		for _, r := range s.from(from) {
			got = append(got, r.Seq)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s, from %d: %s", what, from, d)
		}
	}
	s.last = 9 // of an earlier run, not in memory
	check("nothing new", 1, 0, 0)
	s.add(records(10, 12, 10))
	check("three", 9, 0, 0)
	check("three", 10, 10, 12)
	check("three", 12, 12, 12)
	held := s.from(10)
	s.add(records(13, 13, 10))
	check("one more", 10, 10, 13)
	s.add(records(14, 13+recentItems, 10))
	check("as many as are kept", 13, 0, 0)
	check("as many as are kept", 14, 14, 13+recentItems)
	s.add(records(14+recentItems, 14+recentItems, recentBytes+1))
	check("one that is too large", 14+recentItems, 0, 0)
	s.add(records(15+recentItems, 15+recentItems, 10))
	check("after it", 14+recentItems, 0, 0)
	check("after it", 15+recentItems, 15+recentItems, 15+recentItems)
	if len(held) != 3 || held[0].Seq != 10 || held[2].Seq != 12 {
		t.Errorf("what a reader held became %v", held)
	}
	s.add(records(3, 3, 10)) // the stream lost its tail
	check("regressed", 3, 3, 3)
	check("regressed", 2, 0, 0)
}
