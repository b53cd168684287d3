package recorder

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal/journaltest"
)

// A slot goes missing from the lab's map and comes back: the log tells of both, once, when a person can act on it.
func TestFindingsAreLoggedAsTheyComeAndEnd(t *testing.T) {
	dir := t.TempDir()
	tape := filepath.Join(dir, "faulty.tape")
	key := []byte{10, 43, 236, 246, 0, 80, 2, 0, 6, 0, 0, 0}
	slot := func(d *eventpb.MapDelta) []*eventpb.MapDelta {
		d.Map, d.KeySize, d.ValueSize = "cilium_lb4_services_v2", 12, 12
		return []*eventpb.MapDelta{d}
	}
	err := journaltest.Insert(t.Context(), "../../testdata/lab.tape", tape, map[uint64][]*eventpb.MapDelta{
		209: slot(&eventpb.MapDelta{Deletes: key}),
		255: slot(&eventpb.MapDelta{Upserts: append(key[:12:12], 17, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 0)}),
	})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	err = Run(t.Context(), Options{FromTape: tape, Speed: 1e6, Out: filepath.Join(dir, "out"), Session: filepath.Join(dir, "session"),
		Log: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for d := json.NewDecoder(&log); d.More(); {
		var line struct{ Msg, Level, Rule, Subject, Text, Means string }
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.Rule == "" {
			continue
		}
		got = append(got, line.Level+" "+line.Msg+": "+line.Rule+" "+line.Subject)
		if line.Text == "" || line.Msg == "finding" && line.Means == "" {
			t.Errorf("does not say what is the case and what it means: %+v", line)
		}
	}
	const front = "10.43.236.246:80/TCP"
	want := []string{
		"WARN finding: recorder-gap hubble lost", // as it was recorded
		"WARN finding: slot-count " + front, "WARN finding: missing-backend " + front + " 10.42.0.94:8080/TCP",
		"INFO finding ended: slot-count " + front, "INFO finding ended: missing-backend " + front + " 10.42.0.94:8080/TCP",
	}
	slices.Sort(got[min(3, len(got)):]) // those of one event
	slices.Sort(want[3:])
	if !slices.Equal(got, want) {
		t.Errorf("logged %q\nwant %q", got, want)
	}
}
