package replay

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"github.com/tapedeck-io/tapedeck/internal/recorder"
)

// record plays the lab's tape into a session folder as if live, with keyframes near each other, and returns the
// output folder.
func record(t *testing.T, session string) (out string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "out")
	err := recorder.Run(t.Context(), recorder.Options{
		FromTape: labTape, Speed: 500, Out: out, Session: session, Keyframes: 100_000, Sync: 1e9, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func keyframesIn(t *testing.T, session string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(session, "keyframes", "*.keyframe"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func rendered(s *projections.State) map[string]string {
	files := map[string]string{}
	for _, f := range s.Files() {
		if f.Data != nil {
			files[f.Name] = string(f.Data)
		}
	}
	return files
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

func openAt(t *testing.T, path string) *Session {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// What the live fold knew at each of its keyframes is what the tape says of that position.
func TestLiveEqualsReplayedAtEveryKeyframe(t *testing.T) {
	session := filepath.Join(t.TempDir(), "session")
	out := record(t, session)
	s := openAt(t, session)
	paths := keyframesIn(t, session)
	if len(paths) < 2 { // how many depends on the disk: one that is busy is asked later
		t.Fatalf("%d keyframes were written while recording", len(paths))
	}
	for _, path := range paths {
		k, b, err := journal.ReadKeyframe(path)
		if err != nil {
			t.Fatal(err)
		}
		live, err := projections.UnmarshalState(b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.State(t.Context(), Moment{kind: atSeq, seq: k.Seq})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rendered(live), rendered(again)); diff != "" {
			t.Errorf("at %d live (-), replayed (+):\n%s", k.Seq, diff)
		}
	}
	end, err := s.State(t.Context(), Moment{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(folder(t, out), rendered(end)); diff != "" {
		t.Errorf("folder (-), replayed (+):\n%s", diff)
	}
}

// A recorder that starts again goes on from its last keyframe, and whatever happened to keyframes it goes on.
func TestRestartWithKeyframes(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"whole":   func(*testing.T, string) {},
		"damaged": func(t *testing.T, path string) { flip(t, path) },
		"cut off": func(t *testing.T, path string) { os.Truncate(path, 40) },
		"gone":    func(t *testing.T, path string) { os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			session := filepath.Join(t.TempDir(), "session")
			record(t, session)
			for _, path := range keyframesIn(t, session) {
				harm(t, path)
			}
			out := record(t, session)
			end, err := openAt(t, session).State(t.Context(), Moment{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(folder(t, out), rendered(end)); diff != "" {
				t.Errorf("folder (-), replayed (+):\n%s", diff)
			}
		})
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A journal whose beginning was retired makes a tape with a keyframe, on which the rest stands.
func TestRetiredBeginning(t *testing.T) {
	session := filepath.Join(t.TempDir(), "session")
	j, err := journal.Open(session, journal.Options{MaxBytes: 1_000_000, Sync: 1e9})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := record(t, session)
	s := openAt(t, session)
	first, last, _ := s.Tape.Bounds()
	if first <= 1 {
		t.Fatalf("nothing was retired: %d to %d", first, last)
	}
	end, err := s.State(t.Context(), Moment{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(folder(t, out), rendered(end)); diff != "" {
		t.Errorf("folder (-), replayed (+):\n%s", diff)
	}
	for _, path := range keyframesIn(t, session)[1:] {
		k, _, err := journal.ReadKeyframe(path)
		if err != nil {
			t.Fatal(err)
		}
		if k.Seq+1 < first {
			t.Errorf("keyframe of %d is kept, the journal starts at %d", k.Seq, first)
		}
	}

	for _, path := range keyframesIn(t, session) {
		os.Remove(path)
	}
	_, err = openAt(t, session).State(t.Context(), Moment{})
	var trouble *events.Trouble
	if !errors.As(err, &trouble) || !strings.Contains(err.Error(), "retired") {
		t.Errorf("without any keyframe the state was given: %v", err)
	}
}

// retape writes the lab's tape again with one keyframe in the middle, of this version and these bytes.
func retape(t *testing.T, version uint32, state func([]byte) []byte) *Session {
	t.Helper()
	old := openAt(t, labTape)
	var b bytes.Buffer
	w, err := journal.NewTapeWriter(&b, old.Tape.Header())
	if err != nil {
		t.Fatal(err)
	}
	st := projections.NewState()
	err = old.Tape.Read(t.Context(), 0, 0, func(r journal.Record) error {
		if err := errors.Join(w.Write(r), st.ApplyRecord(r.Seq, r.Data)); err != nil || r.Seq != 100 {
			return err
		}
		b, err := st.Marshal()
		return errors.Join(err, w.Keyframe(r.Seq, version, state(b)))
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	tape, err := journal.ReadTape(bytes.NewReader(b.Bytes()), int64(b.Len()), "test")
	if err != nil {
		t.Fatal(err)
	}
	return &Session{Tape: tape}
}

// What cannot be used of a keyframe costs time and changes nothing.
func TestKeyframesThatAreNotUsed(t *testing.T) {
	want := filesAt(t, labTape, "")
	other, err := projections.NewState().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Session{
		"whole":                    retape(t, projections.FoldVersion, func(b []byte) []byte { return b }),
		"of another fold":          retape(t, projections.FoldVersion+1, func([]byte) []byte { return other }),
		"of another position":      retape(t, projections.FoldVersion, func([]byte) []byte { return other }),
		"no state":                 retape(t, projections.FoldVersion, func([]byte) []byte { return []byte("\xff\xff") }),
		"another fold, no state":   retape(t, 0, func([]byte) []byte { return []byte("\xff\xff") }),
		"of another fold, garbage": retape(t, 99, func([]byte) []byte { return nil }),
	} {
		st, err := s.State(t.Context(), Moment{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, rendered(st)); diff != "" {
			t.Errorf("%s: from the start (-), this (+):\n%s", name, diff)
		}
	}
}
