package export

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/replay/facts"
	"google.golang.org/protobuf/proto"
)

// observe runs the real hubble on a file of flows.
func observe(t *testing.T, flows []byte, form string) []string {
	t.Helper()
	hubble := os.Getenv("TAPEDECK_HUBBLE")
	if hubble == "" {
		t.Skip("TAPEDECK_HUBBLE is not set: needs a hubble command")
	}
	file := filepath.Join(t.TempDir(), "flows.jsonl")
	if err := os.WriteFile(file, flows, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(hubble, "observe", "--input-file", file, "-o", form)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// Hubble reads what is exported, and prints each flow as our text has it.
func TestHubbleReadsTheFlows(t *testing.T) {
	var out bytes.Buffer
	n, err := HubbleJSONL(t.Context(), &out, openLab(t), facts.Query{})
	if err != nil || n.Flows == 0 || n.Cut+n.LeftOut != 0 {
		t.Fatalf("%+v, %v", n, err)
	}
	want := observe(t, out.Bytes(), "compact")
	if len(want) != n.Flows {
		t.Fatalf("hubble prints %d of %d flows", len(want), n.Flows)
	}
	i := 0
	err = facts.Stream(t.Context(), openLab(t), facts.Query{Filter: facts.Filter{Kinds: []string{"flows"}}}, func(f *facts.Fact, b *facts.Book) error {
		if got := f.Text(b); !strings.HasSuffix(want[i], ": "+got) {
			t.Errorf("flow %d is %q, hubble has %q", i, got, want[i])
		}
		i++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Hubble's reader stops at a line of 64 KiB: longer flows are cut where they can be, else left out.
func TestLongFlows(t *testing.T) {
	http := func(headers int, url string) *flowpb.Flow {
		return &flowpb.Flow{Uuid: "a", L7: &flowpb.Layer7{Record: &flowpb.Layer7_Http{Http: &flowpb.HTTP{
			Url: url, Headers: []*flowpb.HTTPHeader{{Key: "x", Value: strings.Repeat("h", headers)}}}}}}
	}
	var batch eventpb.Flows
	for _, f := range []*flowpb.Flow{http(10, "/short"), http(70_000, "/cut"), http(10, "/"+strings.Repeat("u", 70_000))} {
		b, err := proto.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		batch.Flows = append(batch.Flows, &eventpb.Flow{TimeNs: 1, Flow: b})
	}
	path := filepath.Join(t.TempDir(), "a.tape")
	err := journal.WriteTapeFile(path, &eventpb.TapeHeader{FirstSeq: 1, LastSeq: 1}, func(w *journal.TapeWriter) error {
		data, err := proto.Marshal(events.New(&batch))
		if err != nil {
			return err
		}
		return w.Write(journal.Record{Seq: 1, Data: data})
	})
	if err != nil {
		t.Fatal(err)
	}
	tape, err := journal.OpenTape(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tape.Close()
	var out bytes.Buffer
	n, err := HubbleJSONL(t.Context(), &out, tape, facts.Query{})
	if err != nil || n != (Hubble{Flows: 2, Cut: 1, LeftOut: 1}) {
		t.Errorf("%+v, %v", n, err)
	}
	if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, `"/cut"`) || strings.Contains(text, "hhhhhhhhhhhhhhh") {
		t.Error("the flow that can be cut is not there without its headers")
	}
	if lines := observe(t, out.Bytes(), "jsonpb"); len(lines) != 2 {
		t.Errorf("hubble reads %d flows", len(lines))
	}
}
