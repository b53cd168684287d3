package journal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/journal/journaltest"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// The reference implementation reads a tape, and gives the records behind their lengths as protobuf's own
// delimited format has them.
func TestZstdToolReadsATape(t *testing.T) {
	tool, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("no zstd command here (package zstd): ", err)
	}
	stored := journaltest.Events(300)
	path := filepath.Join(t.TempDir(), "a.tape")
	if err := os.WriteFile(path, tapeOf(t, stored), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool, "-d", "-c", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewReader(out)
	for i, want := range stored {
		rec := &eventpb.TapeRecord{}
		if err := protodelim.UnmarshalFrom(in, rec); err != nil {
			t.Fatal(err)
		}
		if rec.Seq != uint64(i+1) || !bytes.Equal(rec.Event, want) {
			t.Fatalf("record %d is not as stored", i+1)
		}
	}
	if in.Len() != 0 {
		t.Errorf("%d bytes more", in.Len())
	}
}

func TestTapeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tape")
	header := &eventpb.TapeHeader{
		ToolVersion: "v0.1.0", SessionId: "s1", Node: "n1", CiliumVersion: "1.20.2", Sync: "always",
		Clocks:  &eventpb.TapeClocks{WallNs: 5, UserHz: 1000},
		Sources: []*eventpb.TapeSource{{Name: "kube"}, {Name: "bpfmap", IntervalNs: 1e9}},
	}
	err := journal.WriteTapeFile(path, header, func(w *journal.TapeWriter) error {
		return w.Write(journal.Record{Seq: 9, Data: []byte{}})
	})
	if err != nil {
		t.Fatal(err)
	}
	tape, err := journal.OpenTape(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tape.Close()
	if d := cmp.Diff(header, tape.Header(), protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if first, last, _ := tape.Bounds(); first != 9 || last != 9 || tape.Torn() != nil || tape.Records() != 1 {
		t.Errorf("bounds %d %d, torn %v", first, last, tape.Torn())
	}
}

// A tape that could not be made whole leaves what was there, and no litter.
func TestTapeFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tape")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := journal.WriteTapeFile(path, &eventpb.TapeHeader{}, func(w *journal.TapeWriter) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("err %v", err)
	}
	files, _ := os.ReadDir(dir)
	if b, _ := os.ReadFile(path); string(b) != "old" || len(files) != 1 {
		t.Errorf("file %q, folder %v", b, files)
	}
}

func TestSameRecordsMakeTheSameTape(t *testing.T) {
	stored := journaltest.Events(300)
	if !bytes.Equal(tapeOf(t, stored), tapeOf(t, stored)) {
		t.Error("two tapes of the same records differ")
	}
}

func TestTapeWriterRefuses(t *testing.T) {
	w, err := journal.NewTapeWriter(&bytes.Buffer{}, &eventpb.TapeHeader{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(journal.Record{Seq: 5}); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"a position twice":     w.Write(journal.Record{Seq: 5}),
		"too big":              w.Write(journal.Record{Seq: 6, Data: make([]byte, journal.MaxEvent+1)}),
		"keyframe of what":     w.Keyframe(6, 1, nil),
		"keyframe, then other": errors.Join(w.Keyframe(5, 1, nil), w.Keyframe(4, 1, nil)),
	} {
		if err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

// The largest event there is goes onto a tape and comes back.
func TestLargestEvent(t *testing.T) {
	stored := [][]byte{[]byte("\x0a\x01a"), make([]byte, journal.MaxEvent), []byte("\x0a\x01b")}
	for i := range stored[1] {
		stored[1][i] = byte(i * i >> 7 * i)
	}
	b := tapeOf(t, stored)
	for name, b := range map[string][]byte{"whole": b, "torn": b[:len(b)-1]} {
		n := 0
		err := openBytes(t, b).Read(t.Context(), 0, 0, func(r journal.Record) error {
			if !bytes.Equal(r.Data, stored[n]) {
				return fmt.Errorf("record %d is not as stored", r.Seq)
			}
			n++
			return nil
		})
		if err != nil || n != 3 {
			t.Errorf("%s: %d records, %v", name, n, err)
		}
	}
}

func TestKeyframes(t *testing.T) {
	stored := journaltest.Events(350)
	b := tapeOf(t, stored) // keyframes at 100, 200, 300
	for name, b := range map[string][]byte{"whole": b, "torn": b[:len(b)-1]} {
		tape := openBytes(t, b)
		for _, c := range []struct {
			at, want uint64
			ok       bool
		}{{0, 0, false}, {99, 0, false}, {100, 100, true}, {199, 100, true}, {350, 300, true}, {9999, 300, true}} {
			seq, version, state, ok, err := tape.Keyframe(c.at)
			if seq != c.want || ok != c.ok || err != nil {
				t.Errorf("%s: keyframe at %d: %d %v %v", name, c.at, seq, ok, err)
			}
			if ok && (version != 3 || !bytes.Equal(state, bytes.Repeat(stored[seq-1], 2))) {
				t.Errorf("%s: keyframe %d, version %d, is not as written", name, seq, version)
			}
		}
	}
}

func TestSeqAt(t *testing.T) {
	at := func(seconds int64) int64 { return journaltest.Start + seconds*1e9 }
	b := tapeOf(t, journaltest.Events(400)) // seen at second 0, 3, 6, …
	for name, b := range map[string][]byte{"whole": b, "torn": b[:len(b)-1]} {
		tape := openBytes(t, b)
		for ns, want := range map[int64]uint64{
			at(-1): 0, at(0): 1, at(1): 1, at(3): 2, at(299): 100, at(300): 101, at(1196): 399, at(1197): 400, at(9e6): 400,
		} {
			if seq, err := tape.SeqAt(ns); seq != want || err != nil {
				t.Errorf("%s: at %ds: %d %v, want %d", name, (ns-journaltest.Start)/1e9, seq, err, want)
			}
		}
	}
}

// The wall clock steps back: a moment is before the first event that was seen later, in the order they came.
func TestSeqAtWhenTheClockStepsBack(t *testing.T) {
	var b bytes.Buffer
	w, _ := journal.NewTapeWriter(&b, &eventpb.TapeHeader{})
	for i, ns := range []int64{100, 200, 50, 60, 210} {
		data, _ := proto.Marshal(&eventpb.Event{SeenNs: ns})
		if err := w.Write(journal.Record{Seq: uint64(i + 10), Data: data}); err != nil {
			t.Fatal(err)
		}
		w.Keyframe(uint64(i+10), 1, nil) // each in a frame of its own
	}
	w.Close()
	tape := openBytes(t, b.Bytes())
	for ns, want := range map[int64]uint64{40: 9, 100: 10, 150: 10, 200: 13, 205: 13, 210: 14} {
		if seq, err := tape.SeqAt(ns); seq != want || err != nil {
			t.Errorf("at %d: %d %v, want %d", ns, seq, err, want)
		}
	}
}

// Wherever a tape is cut, it opens up to its last whole frame and says so, or says that nothing of it is left.
func TestCutAnywhere(t *testing.T) {
	stored := journaltest.Events(120)
	b := tapeOf(t, stored)
	opened, most := 0, 0
	for cut := len(b) - 1; cut >= 0; cut -= 1 + cut/97 {
		tape, err := journal.ReadTape(bytes.NewReader(b[:cut]), int64(cut), "cut.tape")
		if err != nil {
			if cut > 100 || !errors.Is(err, journal.ErrTorn) && !errors.Is(err, journal.ErrForeign) {
				t.Errorf("cut at %d: %v", cut, err)
			}
			continue
		}
		opened++
		if !errors.Is(tape.Torn(), journal.ErrTorn) || !errors.Is(tape.Verify(t.Context()), journal.ErrTorn) {
			t.Errorf("cut at %d: torn is %v", cut, tape.Torn())
		}
		n := 0
		err = tape.Read(t.Context(), 0, 0, func(r journal.Record) error {
			if n++; r.Seq != uint64(n) || !bytes.Equal(r.Data, stored[n-1]) {
				return fmt.Errorf("record %d is not as stored", r.Seq)
			}
			return nil
		})
		if err != nil {
			t.Errorf("cut at %d: %v", cut, err)
		}
		most = max(most, n)
	}
	if opened < 20 || most != 120 {
		t.Errorf("opened %d cuts, most records %d", opened, most)
	}
}

func TestTornSaysWhere(t *testing.T) {
	b := tapeOf(t, journaltest.Events(250))
	tape := openBytes(t, b[:len(b)*2/3])
	_, last, _ := tape.Bounds()
	var trouble *events.Trouble
	if !errors.As(tape.Torn(), &trouble) || trouble.Mend == "" {
		t.Fatalf("torn is %v", tape.Torn())
	}
	if want := fmt.Sprintf("position %d of 250", last); !strings.Contains(tape.Torn().Error(), want) {
		t.Errorf("%q does not say %q", tape.Torn(), want)
	}
}

func TestOpenRefuses(t *testing.T) {
	whole := tapeOf(t, journaltest.Events(3))
	newer := bytes.Clone(whole)
	binary.LittleEndian.PutUint32(newer[16:], 7)
	flipped := bytes.Clone(whole)
	flipped[26] ^= 1
	enc, _ := zstd.NewWriter(nil)
	for name, c := range map[string]struct {
		b    []byte
		want error
		says string
	}{
		"empty":        {nil, journal.ErrForeign, ""},
		"text":         {[]byte(strings.Repeat("hello\n", 100)), journal.ErrForeign, "recorder pack"},
		"other zstd":   {enc.EncodeAll(make([]byte, 1000), nil), journal.ErrForeign, ""},
		"zeroes":       {make([]byte, 4096), journal.ErrForeign, ""},
		"newer":        {newer, journal.ErrNewer, "format 7"},
		"newer's tool": {newer, journal.ErrNewer, "v0.1.0"},
		"cut header":   {whole[:20], journal.ErrTorn, "header"},
		"bad header":   {flipped, journal.ErrDamaged, "header"},
	} {
		_, err := journal.ReadTape(bytes.NewReader(c.b), int64(len(c.b)), "x.tape")
		var trouble *events.Trouble
		if !errors.Is(err, c.want) || !errors.As(err, &trouble) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "x.tape") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := journal.OpenTape(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A byte that changed on the disk is found: at the latest by Verify, and reading never gives other bytes.
func TestDamageIsFound(t *testing.T) {
	stored := journaltest.Events(60)
	whole := tapeOf(t, stored)
	if err := openBytes(t, whole).Verify(t.Context()); err != nil {
		t.Fatal("whole tape: ", err)
	}
	for i := 0; i < len(whole); i += 1 + len(whole)/300 {
		b := bytes.Clone(whole)
		b[i] ^= 0x10
		tape, err := journal.ReadTape(bytes.NewReader(b), int64(len(b)), "x.tape")
		if err != nil {
			continue
		}
		if tape.Verify(t.Context()) == nil {
			t.Errorf("byte %d: not found", i)
		}
		err = tape.Read(t.Context(), 0, 0, func(r journal.Record) error {
			if !bytes.Equal(r.Data, stored[r.Seq-1]) {
				return errors.New("other bytes")
			}
			return nil
		})
		if err != nil && !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
}
