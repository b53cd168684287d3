package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// A session with a break of one source, a loss of it, and a restart of the recorder with one source fewer.
func TestLedger(t *testing.T) {
	l := &ledger{sources: map[string]*sourceBook{}}
	add := func(at int64, source string, body proto.Message) {
		e := events.New(body)
		e.Source, e.SeenNs = source, at
		l.add(uint64(at), e)
	}
	status := func(s eventpb.SourceState, err string) *eventpb.SourceStatus {
		return &eventpb.SourceStatus{State: s, Error: err}
	}
	add(10, "recorder", &eventpb.Session{Sources: []string{"hubble", "kube"}})
	add(12, "kube", status(eventpb.SourceState_SOURCE_STATE_UP, ""))
	add(13, "hubble", status(eventpb.SourceState_SOURCE_STATE_UP, ""))
	add(20, "hubble", &eventpb.Gap{FromNs: 18, ToNs: 19, Reason: eventpb.GapReason_GAP_REASON_LOST, Count: 7, Detail: "ring"})
	add(30, "hubble", status(eventpb.SourceState_SOURCE_STATE_DOWN, "eof"))
	add(35, "hubble", &eventpb.Gap{FromNs: 30, ToNs: 35, Reason: eventpb.GapReason_GAP_REASON_SOURCE_DOWN, Detail: "eof"})
	add(35, "hubble", status(eventpb.SourceState_SOURCE_STATE_UP, ""))
	// Killed at 40: nobody says so but the next start.
	add(60, "recorder", &eventpb.Gap{FromNs: 40, ToNs: 60, Reason: eventpb.GapReason_GAP_REASON_RESTART, Detail: "no recorder"})
	add(60, "recorder", &eventpb.Session{Sources: []string{"kube"}})
	add(61, "kube", status(eventpb.SourceState_SOURCE_STATE_UP, ""))

	got := map[string]string{}
	for _, s := range l.end(70) {
		var rows []string
		for _, in := range s.Intervals {
			row := fmt.Sprintf("%d-%d %s", in.FromNs, in.ToNs, in.Looked)
			if in.Count > 0 {
				row += fmt.Sprintf(" %d", in.Count)
			}
			rows = append(rows, row)
		}
		got[s.Source] = strings.Join(rows, ", ")
	}
	want := map[string]string{
		"hubble": "10-13 not looked, 13-18 seen, 18-19 missed 7, 19-30 seen, 30-35 missed, 35-40 seen, 40-60 not looked, 60-70 not looked",
		"kube":   "10-12 not looked, 12-40 seen, 40-60 not looked, 60-61 not looked, 61-70 seen",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
