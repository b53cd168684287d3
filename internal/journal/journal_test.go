package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(childMain(dir))
	}
	goleak.VerifyTestMain(m)
}

func openTest(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	if o.Node == "" {
		o.Node = "n1"
	}
	if o.Sync == 0 {
		o.Sync = time.Minute
	}
	j, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close(context.Background()) })
	return j
}

func mark(format string, a ...any) *eventpb.Event {
	return events.New(&eventpb.Mark{Text: fmt.Sprintf(format, a...)})
}

func decode(t testing.TB, data []byte) *eventpb.Event {
	t.Helper()
	ev := &eventpb.Event{}
	if err := proto.Unmarshal(data, ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

// marks reads the texts of all marks from position from on.
func marks(t testing.TB, r Reader, from uint64) []string {
	t.Helper()
	var texts []string
	err := r.Read(context.Background(), from, 0, func(rec Record) error {
		if m := decode(t, rec.Data).GetMark(); m != nil {
			texts = append(texts, m.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func emitAll(t testing.TB, emit events.Emit, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if err := emit(t.Context(), mark("%s", s)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEmitFillsTheEnvelope(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{Node: "node.a", Session: "s1"})
	kube, host := j.Emitter("kube"), j.Emitter("host")
	before := time.Now().UnixNano()
	emitAll(t, kube, "a", "b")
	emitAll(t, host, "c")
	emitAll(t, j.Emitter("kube"), "d") // the source was started again

	var got []string
	ids := map[string]bool{}
	err := j.Read(t.Context(), 1, 0, func(r Record) error {
		ev := decode(t, r.Data)
		got = append(got, fmt.Sprint(r.Seq, ev.Node, ev.Source, ev.SourceSeq, ev.Session))
		ids[ev.Id] = true
		if ev.SeenNs < before || !strings.HasPrefix(ev.Id, "node.a-"+ev.Source+"-") {
			t.Errorf("event %v", ev)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1node.akube1s1", "2node.akube2s1", "3node.ahost1s1", "4node.akube3s1"}
	if d := cmp.Diff(want, got); d != "" || len(ids) != 4 {
		t.Errorf("%d ids, events: %s", len(ids), d)
	}
}

func TestAppendKeepsEventsAsTheyAre(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{Session: "here"})
	ev := mark("x")
	ev.Id, ev.Node, ev.Source, ev.SourceSeq, ev.Session, ev.SeenNs = "id-1", "far", "kube", 77, "there", 5
	ev.ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 1, 'n'}) // a field of a newer version
	want, _ := proto.Marshal(ev)
	other := mark("y") // no id at all
	// The same event twice: once in the stream, and what comes after it is not held up.
	if err := j.Append(t.Context(), ev, ev, other); err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	if err := j.Read(t.Context(), 0, 0, func(r Record) error { got = append(got, r.Data); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || string(got[0]) != string(want) || decode(t, got[1]).GetMark().GetText() != "y" {
		t.Errorf("stored %d events, first %x, want %x", len(got), got[0], want)
	}
}

func TestSubjectsAreOneTokenEach(t *testing.T) {
	got := subject("s.1", "node a.example", "kube", "*")
	if want := "tape.s_1.node_a_example.kube._"; got != want {
		t.Errorf("subject %q, want %q", got, want)
	}
}

func TestEventTooBigIsRefused(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{})
	emit := j.Emitter("bpfmap")
	big := func(n int) *eventpb.Event {
		return events.New(&eventpb.MapDeltas{Maps: []*eventpb.MapDelta{{Upserts: make([]byte, n)}}})
	}
	if err := emit(t.Context(), big(MaxEvent)); !errors.Is(err, ErrTooBig) {
		t.Fatalf("err %v", err)
	}
	if err := emit(t.Context(), big(MaxEvent-300)); err != nil {
		t.Fatal(err)
	}
	err := j.Read(t.Context(), 1, 0, func(r Record) error {
		if n := decode(t, r.Data).SourceSeq; n != 1 {
			t.Errorf("source_seq %d: the refused event used up a number", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSessionGoesOn(t *testing.T) {
	dir := t.TempDir() + "/s"
	j := openTest(t, dir, Options{})
	session, identity := j.Session(), j.Identity()
	emitAll(t, j.Emitter("kube"), "one", "two")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v %v", info.Mode(), err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	if _, err := Open(dir, Options{Session: "another"}); !errors.Is(err, ErrOtherSession) {
		t.Errorf("another session's name: %v", err)
	}
	j = openTest(t, dir, Options{})
	if j.Session() != session || j.Identity() != identity {
		t.Errorf("session %s %s, want %s %s", j.Session(), j.Identity(), session, identity)
	}
	emitAll(t, j.Emitter("kube"), "three")
	if d := cmp.Diff([]string{"one", "two", "three"}, marks(t, j, 1)); d != "" {
		t.Error(d)
	}
	first, last, err := j.Bounds()
	if first != 1 || last != 3 || err != nil {
		t.Errorf("bounds %d %d %v", first, last, err)
	}
}

func TestSecondProcessIsTurnedAway(t *testing.T) {
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	_, err := Open(dir, Options{})
	var trouble *events.Trouble
	if !errors.Is(err, ErrLocked) || !errors.As(err, &trouble) {
		t.Fatalf("err %v", err)
	}
	if want := "pid " + strconv.Itoa(os.Getpid()); !strings.Contains(err.Error(), want) || trouble.Mend == "" {
		t.Errorf("%q does not name %q and a mend", err, want)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	openTest(t, dir, Options{})
}

func TestClosedJournalRefuses(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{})
	emit := j.Emitter("kube")
	emitAll(t, emit, "x")
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := emit(t.Context(), mark("y")); !errors.Is(err, ErrClosed) {
		t.Errorf("emit: %v", err)
	}
	if err := j.Follow(t.Context(), 2, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("follow: %v", err)
	}
	if err := j.Read(t.Context(), 1, 0, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("read: %v", err)
	}
}

// A journal that is started again after a write error is not closed, and its last position is known.
func TestBoundsWhileStartedAgain(t *testing.T) {
	j := openTest(t, t.TempDir(), Options{})
	emitAll(t, j.Emitter("kube"), "a", "b")
	now, _ := j.tail.look()
	j.tail.update(func(s *tailState) { s.store = nil })
	if _, last, err := j.Bounds(); last != 2 || err == nil || errors.Is(err, ErrClosed) {
		t.Errorf("last %d, %v", last, err)
	}
	j.tail.update(func(s *tailState) { s.store = now.store })
}

// The server makes a file for its name beside the store; everything else of it would be a listener.
func TestNoListeningPort(t *testing.T) {
	before := listeners(t)
	j := openTest(t, t.TempDir(), Options{})
	emitAll(t, j.Emitter("kube"), "x")
	if d := cmp.Diff(before, listeners(t)); d != "" {
		t.Errorf("sockets of this process that listen: %s", d)
	}
}

// listeners are this process's sockets in state LISTEN (0A in /proc/net/tcp), and its unix ones that accept.
func listeners(t *testing.T) []string {
	t.Helper()
	inodes := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here: ", err)
	}
	for _, fd := range fds {
		link, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		if s, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes[strings.TrimSuffix(s, "]")] = true
		}
	}
	var found []string
	for _, file := range []string{"tcp", "tcp6", "udp", "udp6"} {
		b, _ := os.ReadFile(filepath.Join("/proc/self/net", file))
		for _, line := range strings.Split(string(b), "\n") {
			if f := strings.Fields(line); len(f) > 9 && inodes[f[9]] && (f[3] == "0A" || f[3] == "07") {
				found = append(found, file+" "+f[1])
			}
		}
	}
	return found
}
