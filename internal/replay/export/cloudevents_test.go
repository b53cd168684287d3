package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/replay/facts"
)

const labTape = "../../../testdata/lab.tape"

func openLab(t *testing.T) *journal.Tape {
	t.Helper()
	tape, err := journal.OpenTape(labTape)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tape.Close() })
	return tape
}

// Every line is a CloudEvent by the SDK's own judgement, and each event of the tape is one.
func TestCloudEventsAreValid(t *testing.T) {
	tape := openLab(t)
	var out, again bytes.Buffer
	n, err := CloudEvents(t.Context(), &out, tape, facts.Query{})
	if err != nil || uint64(n) != tape.Records() {
		t.Fatalf("%d events of %d: %v", n, tape.Records(), err)
	}
	if _, err := CloudEvents(t.Context(), &again, tape, facts.Query{}); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same tape gave other bytes: ", err)
	}
	lines, last := bufio.NewScanner(&out), ""
	lines.Buffer(nil, 64<<20)
	seen := map[string]bool{}
	for lines.Scan() {
		var e event.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		seq, _ := e.Extensions()["sequence"].(string)
		if seq <= last || len(seq) != 20 || e.Extensions()["recordedtime"] == nil || seen[e.ID()] || !strings.HasPrefix(e.Source(), "/tapedeck/lab/") {
			t.Errorf("event %s of %s: sequence %q after %q", e.ID(), e.Source(), seq, last)
		}
		var data []map[string]any
		if err := e.DataAs(&data); err != nil || len(data) == 0 {
			t.Errorf("event %s has no facts: %v", e.ID(), err)
		}
		last, seen[e.ID()] = seq, true
	}
	if err := lines.Err(); err != nil || len(seen) != n {
		t.Errorf("%d lines: %v", len(seen), err)
	}
}
