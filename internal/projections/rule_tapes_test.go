package projections

import (
	"slices"
	"strings"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/journal"
)

// The real node had nothing wrong while it was recorded: a lab, and a rolling update under load. What is found beyond the
// packets that the update really lost, and the event that Hubble lost of each, is a mistake of a rule.
func TestWhatIsFoundOnRealTapes(t *testing.T) {
	for name, want := range map[string][]string{
		"lab": {"recorder-gap hubble lost"},
		// `hubble observe --verdict DROPPED` has two of probe's SYNs to 10.42.0.147:8080, whose pod ended; other SYNs to pods that
		// ended are the kubelet's.
		"rolling": {"packets-dropped cca-dp/web STALE_OR_UNROUTABLE_IP", "packets-dropped cca-dp/web-np STALE_OR_UNROUTABLE_IP", "recorder-gap hubble lost"},
	} {
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
			var got []string
			for _, f := range s.Findings() {
				got = append(got, f.Rule+" "+f.Subject)
				t.Logf("%s: %s (from %d, found %d, ended %d)", f.Rule, f.Text, f.SinceNs, f.FoundNs, f.EndedNs)
				if f.Rule == "packets-dropped" && !strings.HasPrefix(f.Text, "2 packets dropped on the way of cca-dp/web") {
					t.Errorf("%s", f.Text)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
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
