package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const labTape = "../../testdata/lab.tape"

func filesAt(t *testing.T, tape, moment string) map[string]string {
	t.Helper()
	s, err := Open(t.Context(), tape)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := ParseMoment(moment)
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.State(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range st.Files() {
		if f.Data != nil {
			files[f.Name] = string(f.Data)
		}
	}
	return files
}

// oracle is what Cilium's own tools printed while the tape was recorded.
func oracle(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata/lab", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

func TestTapeOfTheLabGivesWhatCiliumSaid(t *testing.T) {
	files := filesAt(t, labTape, "")
	anyOrder := cmpopts.SortSlices(func(a, b any) bool { return a.(string) < b.(string) })
	for _, name := range []string{"iptables.json", "svc.json", "ct.json", "prog.json", "nodeport.json", "ghost.json"} {
		want, got := object(t, oracle(t, name)), object(t, files[name])
		if name == "ghost.json" {
			// Each request takes its own time.
			delete(want, "seconds")
			delete(got, "seconds")
		}
		if diff := cmp.Diff(want, got, anyOrder); diff != "" {
			t.Errorf("%s: Cilium's tools (-), tape (+):\n%s", name, diff)
		}
	}
	want, got := object(t, oracle(t, "scale.json")), object(t, files["scale.json"])
	for _, side := range []string{"backends", "endpointslice"} {
		if diff := cmp.Diff(want[side], got["backends"], anyOrder); diff != "" {
			t.Errorf("scale.json, %s: Cilium's tools (-), tape (+):\n%s", side, diff)
		}
	}
	if diff := cmp.Diff(oracle(t, "report.txt"), files["report.txt"]); diff != "" {
		t.Errorf("report.txt: Cilium's tools (-), tape (+):\n%s", diff)
	}
	if n := len(got["new_backends"].([]any)); n != 2 {
		t.Errorf("%d new backends, want 2", n)
	}
}

// Before a step its file is not there, or waits.
func TestFilesAtTheStepsMarks(t *testing.T) {
	for _, c := range []struct {
		mark          string
		there, absent []string
	}{
		{"mark:step 1", []string{"report.txt", "session.json"}, []string{"svc.json", "ct.json", "ghost.json"}},
		{"mark:step 4", []string{"iptables.json", "svc.json", "scale.json"}, []string{"ct.json", "prog.json", "nodeport.json", "ghost.json"}},
		{"mark:step 7", []string{"ct.json", "prog.json", "nodeport.json"}, []string{"ghost.json"}},
	} {
		files := filesAt(t, labTape, c.mark)
		for _, name := range c.there {
			if _, ok := files[name]; !ok {
				t.Errorf("at %s there is no %s", c.mark, name)
			}
		}
		for _, name := range c.absent {
			if _, ok := files[name]; ok {
				t.Errorf("at %s there is %s already", c.mark, name)
			}
		}
	}
}

func TestSameTapeSameBytes(t *testing.T) {
	if diff := cmp.Diff(filesAt(t, labTape, ""), filesAt(t, labTape, "")); diff != "" {
		t.Error(diff)
	}
}

func TestMoments(t *testing.T) {
	for _, bad := range []string{"yesterday", "seq:x", "+x", "--1s", "+-1s", "10:37"} {
		if _, err := ParseMoment(bad); err == nil {
			t.Errorf("%q is a moment", bad)
		}
	}
	s, err := Open(t.Context(), labTape)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, outside := range []string{"2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z", "+24h", "-24h", "seq:0", "seq:999999", "mark:nobody"} {
		m, err := ParseMoment(outside)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.State(t.Context(), m); err == nil {
			t.Errorf("%s is outside the session and was answered", outside)
		}
	}
	for _, inside := range []string{"", "+0s", "-0s", "+5s", "-1s", "seq:1", "mark:step 3"} {
		m, err := ParseMoment(inside)
		if err != nil {
			t.Fatal(err)
		}
		st, err := s.State(t.Context(), m)
		if err != nil {
			t.Errorf("%q: %v", inside, err)
			continue
		}
		if inside == "seq:1" && st.Seq != 1 {
			t.Errorf("seq:1 gave %d", st.Seq)
		}
	}
}
