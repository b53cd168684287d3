package projections

import (
	"fmt"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// recorderGap: the recorder did not see all. One finding is one reason of one source, from the first gap to the end of the last.
var recorderGap = rule{
	name: "recorder-gap", level: LevelWarning,
	means: "what happened meanwhile is not known, or known only by what it left behind: that nothing is recorded does not mean that nothing happened; `replay info` lists every gap",
	on:    []topic{topicGaps},
	node: func(s *State) (found []problem) {
		for _, name := range sortedNames(s.Sources) {
			if src := s.Sources[name]; src.State == eventpb.SourceState_SOURCE_STATE_DOWN {
				found = append(found, problem{subject: name + " source down", text: fmt.Sprintf("%s is down: %s", name, src.Error), sinceNs: src.SinceNs})
			}
		}
		for _, k := range s.missedKeys() {
			m := s.missed[k]
			if src := s.Sources[k.source]; k.reason == eventpb.GapReason_GAP_REASON_SOURCE_DOWN && src.State == eventpb.SourceState_SOURCE_STATE_DOWN {
				continue // told above
			}
			found = append(found, problem{subject: k.source + " " + strings.ReplaceAll(lower(k.reason, "GAP_REASON_"), "_", " "), text: gapText(k), sinceNs: m.fromNs, lastNs: m.toNs})
		}
		return found
	},
}

func gapText(k missedKey) string {
	text, ok := gapTexts[k.reason]
	if !ok {
		text = "%s did not see all"
	}
	return fmt.Sprintf(text, k.source)
}

var gapTexts = map[eventpb.GapReason]string{
	eventpb.GapReason_GAP_REASON_RESTART:     "%s was not running",
	eventpb.GapReason_GAP_REASON_SOURCE_DOWN: "%s was down",
	eventpb.GapReason_GAP_REASON_LOST:        "%s was not told all: what it reads from lost some",
	eventpb.GapReason_GAP_REASON_RELIST:      "%s listed objects anew: what came and went before the list is not known",
	eventpb.GapReason_GAP_REASON_LATE:        "%s looked late, or could not see all when it looked",
	eventpb.GapReason_GAP_REASON_REPLACED:    "%s found maps replaced by others: what was in the old ones at the end is not known",
	eventpb.GapReason_GAP_REASON_ROTATED:     "%s missed lines of a log that was rotated",
	eventpb.GapReason_GAP_REASON_JOURNAL:     "%s could not store what it saw",
	eventpb.GapReason_GAP_REASON_CLOCK:       "the wall clock was set while %s ran: times before and after do not compare",
}
