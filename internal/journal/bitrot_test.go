package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
)

// Every file of a session, cut at each sixteenth and with bits flipped: it opens, or says what is wrong and how to
// mend it; what is read is what was stored, and what cannot be read is a gap with its count.
func TestDamagedSession(t *testing.T) {
	dir, want := blockSession(t)
	random := rand.New(rand.NewPCG(5, 6))
	err := fs.WalkDir(os.DirFS(dir), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || len(b) == 0 {
			return err
		}
		for i := range 16 {
			testDamage(t, damage{dir, file, fmt.Sprintf("cut to %d of 16", i), b[:len(b)*i/16]}, want)
		}
		for range rounds(8) {
			flipped, at := bytes.Clone(b), random.IntN(len(b))
			flipped[at] ^= 1 << random.IntN(8)
			testDamage(t, damage{dir, file, fmt.Sprint("bit flipped at ", at), flipped}, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The server's checksum lets this one through: the length of a message's header, which is behind 22 bytes of record
// header and the subject.
func TestDamagedHeaderLength(t *testing.T) {
	dir, want := blockSession(t)
	file := filepath.Join(blocksOf(dir), "2.blk")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(b, []byte("NATS/1.0")) - 1
	for bit := range 7 {
		flipped := bytes.Clone(b)
		flipped[at-3] ^= 1 << bit // little endian
		testDamage(t, damage{dir, "jetstream/jetstream/$G/streams/tape/msgs/2.blk", fmt.Sprint("bit ", bit, " of a header's length"), flipped}, want)
	}
}

// blockSession is a session in several small blocks, and its records' bytes.
func blockSession(t *testing.T) (dir string, want [][]byte) {
	dir = t.TempDir()
	j := openTest(t, dir, Options{MaxBytes: 120_000}) // blocks of 32 kB
	emit := j.Emitter("kube")
	for i := range 120 {
		emitAll(t, emit, fmt.Sprint(i, strings.Repeat("x", 500)))
	}
	if err := j.Read(t.Context(), 1, 0, func(r Record) error { want = append(want, r.Data); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, err := blocks(blocksOf(dir)); err != nil || len(found) != 3 || len(want) != 120 {
		t.Fatalf("blocks %v %v, %d records", found, err, len(want))
	}
	return dir, want
}

// damage is a session of which one file has other bytes.
type damage struct {
	dir, file, what string
	bytes           []byte
}

func (d damage) copy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(d.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, d.file), d.bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func testDamage(t *testing.T, d damage, want [][]byte) {
	name := filepath.Base(d.file) + " " + d.what
	t.Run(name, func(t *testing.T) { openDamaged(t, d.copy(t), want, false) })
	if filepath.Ext(d.file) != ".blk" {
		return
	}
	t.Run(name+" without index", func(t *testing.T) { // who is killed leaves none
		dir := d.copy(t)
		removeAll(t, filepath.Join(blocksOf(dir), "index.db"))
		openDamaged(t, dir, want, filepath.Base(d.file) == "3.blk")
	})
}

func openDamaged(t *testing.T, dir string, want [][]byte, newest bool) {
	j, err := Open(dir, Options{Node: "n1", Sync: time.Minute})
	var trouble *events.Trouble
	if errors.As(err, &trouble) && trouble.Mend != "" {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close(t.Context())
	emitAll(t, j.Emitter("later"), "a", "b") // writing goes on
	readDamaged(t, j, want, newest)
}

// readDamaged accounts for every position. Where the newest block is damaged and no index says how far it went, the
// journal ends earlier; the gap that a restart is starts there. Where the oldest is gone, its own gap says so.
func readDamaged(t *testing.T, j *Journal, want [][]byte, newest bool) {
	next, headGone, headSaid := uint64(1), false, false
	err := j.Read(t.Context(), 1, 0, func(r Record) error {
		headGone = headGone || next == 1 && r.Seq > 1
		if r.Seq != next && next != 1 {
			t.Errorf("position %d where %d belongs", r.Seq, next)
		}
		next = r.Seq + 1
		ev := decode(t, r.Data)
		switch gap := ev.GetGap(); {
		case gap != nil && gap.Count > 0:
			next += gap.Count - 1
			if gap.FromNs == 0 || gap.FromNs > gap.ToNs {
				t.Errorf("gap %v", gap)
			}
		case gap != nil:
			headSaid = strings.Contains(gap.Detail, "oldest block")
		case ev.Source != "later" && !bytes.Equal(r.Data, want[r.Seq-1]):
			t.Errorf("record %d is not as stored", r.Seq)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, last, err := j.Bounds(); err != nil || next != last+1 || int(last) < len(want)+2 && !newest {
		t.Errorf("read up to %d of %d, %v", next-1, last, err)
	}
	if headGone && !headSaid {
		t.Error("the journal begins later and does not say so")
	}
}
