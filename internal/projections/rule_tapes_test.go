package projections

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/journal"
)

// The real node had nothing wrong while it was recorded: a lab, and a rolling update under load. Hubble lost one event of each,
// and whatever else is found in them is a mistake of a rule.
func TestNothingIsFoundOnRealTapes(t *testing.T) {
	for _, name := range []string{"lab", "rolling"} {
		t.Run(name, func(t *testing.T) {
			s := NewState()
			for _, r := range tapeRecords(t, "../../testdata/"+name+".tape") {
				if err := s.ApplyRecord(r.Seq, r.Data); err != nil {
					t.Fatal(err)
				}
			}
			if len(s.LB.frontends) < 5 || len(s.joins.agent) < 4 || len(s.joins.endpoints) < 4 {
				t.Fatalf("the tape tells of %d frontends, %d rows of the agent and %d endpoints", len(s.LB.frontends), len(s.joins.agent), len(s.joins.endpoints))
			}
			lost := 0
			for _, f := range s.Findings() {
				if f.Rule == recorderGap.name && f.Subject == "hubble lost" {
					lost++
					continue
				}
				t.Errorf("%s: %s (from %d, found %d, ended %d)", f.Rule, f.Text, f.SinceNs, f.FoundNs, f.EndedNs)
			}
			if lost != 1 {
				t.Errorf("%d findings of what Hubble lost, want 1", lost)
			}
		})
	}
}

func tapeRecords(t testing.TB, path string) []journal.Record {
	t.Helper()
	tape, err := journal.OpenTape(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tape.Close()
	var records []journal.Record
	if err := tape.Read(t.Context(), 0, 0, func(r journal.Record) error { records = append(records, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return records
}
