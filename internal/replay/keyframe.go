package replay

import (
	"fmt"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// nearest returns the State of the last keyframe at or before a position that can be used, or the empty one before
// the first event. A keyframe that is damaged, or was made by another version of the fold, is passed over: all it
// saves is time, unless what is before it is not on the tape.
func (s *Session) nearest(seq uint64) (*projections.State, error) {
	var unused string
	for at := seq; ; {
		k, version, b, ok, err := s.Tape.Keyframe(at)
		var st *projections.State
		if ok && version != projections.FoldVersion {
			unused = fmt.Sprintf("; its keyframe of seq:%d was made by version %d of the fold, this is version %d", k, version, projections.FoldVersion)
		} else if ok {
			st, err = projections.UnmarshalState(b)
		}
		switch {
		case err != nil:
			unused = fmt.Sprintf("; its keyframe of seq:%d cannot be read", k)
		case st != nil && st.Seq == k:
			return st, nil
		case !ok:
			return s.empty(seq, unused)
		}
		if k == 0 {
			return s.empty(seq, unused)
		}
		at = k - 1
	}
}

func (s *Session) empty(seq uint64, unused string) (*projections.State, error) {
	first, last, err := s.Tape.Bounds()
	if err != nil || first <= 1 || last < first {
		return projections.NewState(), err
	}
	return nil, &events.Trouble{
		Thing: fmt.Sprintf("state at seq:%d", seq),
		Cause: fmt.Errorf("the session's events before seq:%d were retired, and what was known then is not on the tape%s", first, unused),
		Mend:  "name a later moment; `replay events` shows what is there",
	}
}
