package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/journal/journaltest"
)

func keyframeFile(t testing.TB, state []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "7.keyframe")
	if err := journal.WriteKeyframe(path, &eventpb.TapeKeyframe{Seq: 7, FoldVersion: 2, Journal: "s1-x", EventId: "e7"}, state); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKeyframeFile(t *testing.T) {
	state := bytes.Repeat([]byte("state "), 100_000)
	path := keyframeFile(t, state)
	k, got, err := journal.ReadKeyframe(path)
	if err != nil {
		t.Fatal(err)
	}
	if k.Seq != 7 || k.FoldVersion != 2 || k.Journal != "s1-x" || k.EventId != "e7" || !bytes.Equal(got, state) {
		t.Errorf("keyframe of %d, version %d, %d bytes of state, is not as written", k.Seq, k.FoldVersion, len(got))
	}
}

// Whatever happened to a keyframe's file, it is noticed.
func TestDamagedKeyframeFile(t *testing.T) {
	path := keyframeFile(t, []byte("state"))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0x10
		for name, b := range map[string][]byte{"cut": whole[:i], "flipped": flipped} {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			// The version stands outside the checksum, and there is one only.
			if _, _, err := journal.ReadKeyframe(path); !errors.Is(err, journal.ErrDamaged) && (name == "cut" || i < 16 || i >= 20) {
				t.Errorf("%s at byte %d of %d: %v", name, i, len(whole), err)
			}
		}
	}
	if _, _, err := journal.ReadKeyframe(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A tape of a session whose beginning is gone starts with what was known then.
func TestTapeStartsWithKeyframe(t *testing.T) {
	var b bytes.Buffer
	w, err := journal.NewTapeWriter(&b, &eventpb.TapeHeader{FirstSeq: 50})
	if err != nil {
		t.Fatal(err)
	}
	stored := journaltest.Events(60)
	if err := w.Keyframe(49, 3, []byte("known at 49")); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(journal.Record{Seq: 49}); err == nil {
		t.Error("the keyframe's own event was written behind it")
	}
	for i := 50; i <= 60; i++ {
		if err := w.Write(journal.Record{Seq: uint64(i), Data: stored[i-1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"whole": b.Bytes(), "torn": b.Bytes()[:b.Len()-1]} {
		tape := openBytes(t, b)
		if first, last, _ := tape.Bounds(); first != 50 || last != 60 {
			t.Errorf("%s: bounds %d to %d", name, first, last)
		}
		for _, at := range []uint64{49, 50, 60} {
			if seq, _, state, ok, err := tape.Keyframe(at); seq != 49 || string(state) != "known at 49" || !ok || err != nil {
				t.Errorf("%s: keyframe at %d: %d %q %v", name, at, seq, state, err)
			}
		}
		if _, _, _, ok, err := tape.Keyframe(48); ok || err != nil {
			t.Errorf("%s: a keyframe before the first: %v", name, err)
		}
	}
}

// FuzzKeyframe: any bytes as a keyframe's file give an error or a state, never a panic.
func FuzzKeyframe(f *testing.F) {
	b, err := os.ReadFile(keyframeFile(f, []byte("state")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)/2])
	path := filepath.Join(f.TempDir(), "fuzz.keyframe")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if k, _, err := journal.ReadKeyframe(path); (k == nil) == (err == nil) {
			t.Fatalf("keyframe %v, error %v", k, err)
		}
	})
}
