package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/replay"
	"google.golang.org/protobuf/proto"
)

// Files must be true this long after a step: probes and polls have had their turn by then.
const settle = 15 * time.Second

func TestLab(t *testing.T) {
	l := start(t)
	l.record()

	l.run("lab/steps", "1")
	l.equals("iptables")
	l.equals("svc")
	baseline := l.text("svc.json")
	l.run("lab/steps", "2", "3")
	l.scaled()
	l.run("lab/steps", "4")
	l.equals("ct")
	l.run("lab/steps", "5")
	l.equals("prog")
	l.run("lab/steps", "6")
	l.equals("nodeport")
	l.run("lab/steps", "7", "8")
	l.ghost()
	l.report()
	for _, name := range []string{"iptables", "ct", "prog", "nodeport"} {
		l.equals(name)
	}
	l.complete()
	l.connections()

	t.Run("backend deleted", func(t *testing.T) { l.with(t).backendDeleted() })
	t.Run("holder made again", func(t *testing.T) { l.with(t).holderMadeAgain() })
	t.Run("killed in a scale-up", func(t *testing.T) { l.with(t).killedInScaleUp() })
	if got := l.text("svc.json"); got != baseline {
		t.Errorf("svc.json is not the baseline any more: %s", cmp.Diff(baseline, got))
	}
	t.Run("mark", func(t *testing.T) { l.with(t).mark() })
	t.Run("tape", func(t *testing.T) { l.with(t).tape() })
}

func (l *lab) with(t *testing.T) *lab {
	sub := *l
	sub.T = t
	t.Cleanup(func() { l.cmd = sub.cmd })
	return &sub
}

func (l *lab) text(file string) string {
	b, err := os.ReadFile(filepath.Join(l.out, file))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// fields decodes a JSON object, for comparing what two programs printed. Its lists come in one order: the oracle
// sorts by text, the files by address.
func fields(text string) (map[string]any, error) {
	var v map[string]any
	err := json.Unmarshal([]byte(text), &v)
	for key, value := range v {
		if _, isList := value.([]any); isList {
			v[key] = sorted(value)
		}
	}
	return v, err
}

func (l *lab) oracle(name string) (map[string]any, error) {
	text, err := l.try("lab/oracle", name)
	if err != nil {
		return nil, err
	}
	return fields(text)
}

// equals waits until the file equals what the oracle prints, field by field.
func (l *lab) equals(name string) {
	l.Helper()
	l.eventually(settle, name+".json equals the oracle", func() error {
		want, err := l.oracle(name)
		if err != nil {
			return err
		}
		got, err := fields(l.text(name + ".json"))
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("oracle (-), file (+):\n%s", diff)
		}
		return nil
	})
}

func (l *lab) scaled() {
	l.Helper()
	l.eventually(settle, "scale.json equals the oracle", func() error {
		want, err := l.oracle("scale")
		if err != nil {
			return err
		}
		var got, base struct {
			Backends    []string `json:"backends"`
			NewBackends []string `json:"new_backends"`
		}
		if err := l.read("scale.json", &got); err != nil {
			return err
		}
		if err := l.read("svc.json", &base); err != nil {
			return err
		}
		var added []string
		for _, b := range got.Backends {
			if !slices.Contains(base.Backends, b) {
				added = append(added, b)
			}
		}
		if len(got.Backends) != 4 || len(added) != 2 || !slices.Equal(added, got.NewBackends) {
			return fmt.Errorf("baseline %v, backends %v, new %v", base.Backends, got.Backends, got.NewBackends)
		}
		for _, side := range []string{"backends", "endpointslice"} {
			if a, b := sorted(want[side]), sorted(got.Backends); !slices.Equal(a, b) {
				return fmt.Errorf("oracle's %s %v, file %v", side, a, b)
			}
		}
		return nil
	})
}

// sorted makes one order of the oracle's lists (by text) and ours (by address).
func sorted(list any) []string {
	var out []string
	switch v := list.(type) {
	case []any:
		for _, e := range v {
			out = append(out, fmt.Sprint(e))
		}
	case []string:
		out = slices.Clone(v)
	}
	slices.Sort(out)
	return out
}

// ghost compares all but the time that the request took, which is of the same nature: refused at once, or the
// limit of 5 s.
func (l *lab) ghost() {
	l.Helper()
	l.eventually(settle, "ghost.json equals the oracle", func() error {
		want, err := l.oracle("ghost")
		if err != nil {
			return err
		}
		got, err := fields(l.text("ghost.json"))
		if err != nil {
			return err
		}
		a, b := want["seconds"].(float64), float64(-1)
		if s, ok := got["seconds"].(float64); ok {
			b = s
		}
		if b < 0 || (a < 1) != (b < 1) {
			return fmt.Errorf("oracle's request took %v s, ours %v", a, b)
		}
		delete(want, "seconds")
		delete(got, "seconds")
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("oracle (-), file (+):\n%s", diff)
		}
		return nil
	})
}

func (l *lab) report() {
	l.Helper()
	l.eventually(settle, "report.txt equals the oracle", func() error {
		want, err := l.try("lab/oracle", "report")
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, l.text("report.txt")); diff != "" {
			return fmt.Errorf("oracle (-), file (+):\n%s", diff)
		}
		return nil
	})
}

func (l *lab) complete() {
	l.Helper()
	l.eventually(settle, "session.json says complete", func() error {
		var s struct {
			Files []struct {
				File, Status string
				WaitsFor     []string `json:"waits_for"`
			}
		}
		if err := l.read("session.json", &s); err != nil {
			return err
		}
		if want := len(projections.Views); len(s.Files) != want {
			return fmt.Errorf("%d files, want %d", len(s.Files), want)
		}
		for _, f := range s.Files {
			if f.Status != "complete" {
				return fmt.Errorf("%s is %s: %v", f.File, f.Status, f.WaitsFor)
			}
		}
		return nil
	})
}

type ctFields struct {
	Client, Backend string
	BackendPod      string `json:"backend_pod"`
}

// backendDeleted: the holder's backend goes, the holder connects again, and the files follow within a second
// of the moment that the app logged.
func (l *lab) backendDeleted() {
	var before ctFields
	if err := l.read("ct.json", &before); err != nil {
		l.Fatal(err)
	}
	l.kubectl("delete", "pod", before.BackendPod, "--wait=false")
	var followed time.Time
	l.eventually(30*time.Second, "ct.json follows the holder to another backend", func() error {
		var now ctFields
		if err := l.read("ct.json", &now); err != nil {
			return err
		}
		line, _, _ := strings.Cut(l.text("report.txt")[strings.Index(l.text("report.txt"), "holder_backend=")+15:], "\n")
		if now.Backend == "" || now.Backend == before.Backend || now.BackendPod == "" || line != now.Backend {
			return fmt.Errorf("still %+v, report %s", now, line)
		}
		followed = time.Now()
		return nil
	})
	lines := strings.Split(l.kubectl("logs", "holder"), "\n")
	connected := ""
	for _, line := range lines {
		if strings.Contains(line, " connected ") {
			connected, _, _ = strings.Cut(line, " ")
		}
	}
	at, err := time.Parse(time.RFC3339Nano, connected)
	if err != nil {
		l.Fatalf("no stamp in the holder's log: %v", lines)
	}
	l.Logf("files followed %v after the app's connect", followed.Sub(at))
	if late := followed.Sub(at); late > time.Second {
		l.Errorf("files followed after %v, want at most 1 s", late)
	}
	l.run("lab/steps", "3") // four ready pods again
	l.equals("ct")
	l.report()
}

// holderMadeAgain: another address, endpoint and policy map under the same name.
func (l *lab) holderMadeAgain() {
	before, err := fields(l.text("prog.json"))
	if err != nil {
		l.Fatal(err)
	}
	l.kubectl("delete", "pod", "holder", "--wait=true")
	l.eventually(settle, "ct.json and prog.json go with the pod", func() error {
		for _, f := range []string{"ct.json", "prog.json"} {
			if _, err := os.Stat(filepath.Join(l.out, f)); !os.IsNotExist(err) {
				return fmt.Errorf("%s is still there", f)
			}
		}
		return nil
	})
	l.run("lab/steps", "4")
	l.equals("ct")
	l.equals("prog")
	after, _ := fields(l.text("prog.json"))
	if before["endpoint_id"] == after["endpoint_id"] || before["policy_map"] == after["policy_map"] {
		l.Errorf("prog.json before %v, after %v: want another endpoint and policy map", before, after)
	}
	l.report()
}

func (l *lab) killedInScaleUp() {
	l.kubectl("scale", "deploy", "web", "--replicas=2")
	l.eventually(30*time.Second, "two backends left", func() error {
		var s struct{ Backends []string }
		if err := l.read("scale.json", &s); err != nil || len(s.Backends) != 2 {
			return fmt.Errorf("%v %v", s, err)
		}
		return nil
	})
	l.kubectl("scale", "deploy", "web", "--replicas=4")
	l.stop(syscall.SIGKILL)
	l.record()
	l.run("lab/steps", "3")
	for _, name := range []string{"iptables", "ct", "prog", "nodeport"} {
		l.equals(name)
	}
	l.ghost()
	l.report()
	l.complete()
	l.eventually(settle, "scale.json has the map's four", func() error {
		var s struct{ Backends []string }
		if err := l.read("scale.json", &s); err != nil {
			return err
		}
		want, err := l.oracle("scale")
		if err == nil && !slices.Equal(sorted(want["backends"]), sorted(s.Backends)) {
			err = fmt.Errorf("oracle %v, file %v", want["backends"], s.Backends)
		}
		return err
	})
}

// mark: a mark reaches the running session; the mark "svc" takes the baseline anew.
func (l *lab) mark() {
	l.run("bin/recorder", "mark", "--session", l.session, "svc")
	l.equals("svc")
}

// tape: what the recorder left when it was stopped equals what replay makes from the packed tape.
func (l *lab) tape() {
	l.stop(syscall.SIGTERM)
	tape := filepath.Join(l.TempDir(), "lab.tape")
	rebuilt := filepath.Join(l.TempDir(), "rebuilt")
	l.run("bin/recorder", "pack", "--session", l.session, "-o", tape)
	l.run("bin/replay", "rebuild", tape, "--out", rebuilt)
	live, again := folder(l.T, l.out), folder(l.T, rebuilt)
	if want := len(projections.Views) + 1; len(live) != want {
		l.Errorf("%d files in the live folder, want %d", len(live), want)
	}
	if diff := cmp.Diff(live, again); diff != "" {
		l.Errorf("live (-), rebuilt (+):\n%s", diff)
	}
	l.keyframes(tape)
	l.journal(tape)
}

// keyframes: what the live fold knew while it recorded is what the tape says of those positions.
func (l *lab) keyframes(tape string) {
	paths, err := filepath.Glob(filepath.Join(l.session, "keyframes", "*.keyframe"))
	if err != nil || len(paths) < 2 {
		l.Fatalf("%d keyframes were written while recording (%v)", len(paths), err)
	}
	s, err := replay.Open(l.Context(), tape)
	if err != nil {
		l.Fatal(err)
	}
	defer s.Close()
	for _, path := range paths {
		k, data, err := journal.ReadKeyframe(path)
		if err != nil {
			l.Fatal(err)
		}
		live, err := projections.UnmarshalState(data)
		if err != nil {
			l.Fatal(err)
		}
		at, err := replay.ParseMoment(fmt.Sprintf("seq:%d", k.Seq))
		if err != nil {
			l.Fatal(err)
		}
		again, err := s.State(l.Context(), at)
		if err != nil {
			l.Fatal(err)
		}
		if diff := cmp.Diff(live.Files(), again.Files()); diff != "" {
			l.Errorf("at seq %d live (-), replayed (+):\n%s", k.Seq, diff)
		}
	}
	l.Logf("equal at %d keyframes", len(paths))
}

func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// journal checks the stored events: no event, flow or log line twice, and the restart as a gap.
func (l *lab) journal(path string) {
	tape, err := journal.OpenTape(path)
	if err != nil {
		l.Fatal(err)
	}
	seen := map[string]int{}
	restarts := 0
	err = tape.Read(context.Background(), 0, ^uint64(0), func(r journal.Record) error {
		var e eventpb.Event
		if err := proto.Unmarshal(r.Data, &e); err != nil {
			return err
		}
		seen["event "+e.Id]++
		for _, f := range e.GetFlows().GetFlows() {
			if len(f.Uuid) > 0 {
				seen[fmt.Sprintf("flow %x", f.Uuid)]++
			}
		}
		for _, line := range e.GetLog().GetLines() {
			seen[fmt.Sprintf("log line of %s at %d: %s", e.GetLog().ContainerId, line.TimeNs, line.Text)]++
		}
		if e.GetGap().GetReason() == eventpb.GapReason_GAP_REASON_RESTART {
			restarts++
		}
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
	for what, n := range seen {
		if n > 1 {
			l.Errorf("%s is stored %d times", what, n)
		}
	}
	if restarts != 1 {
		l.Errorf("%d restart gaps, want 1", restarts)
	}
	l.Logf("%d events, flows and log lines on the tape, each once", len(seen))
}
