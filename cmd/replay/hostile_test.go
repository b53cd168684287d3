package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/profile"
	"github.com/tapedeck-io/tapedeck/internal/term"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// evil is what a name can have in it when whoever made the tape wants to be noticed, or not: a formula, a title, cursor
// moves, lines, another direction, HTML and a path.
const evil = "=1+1\x1b]0;pwned\x07\x1b[1A\x1b[2K\u009b2J\r\n\t\u202e\u2028<script>alert(1)</script>/../../../tmp/pwned"

// spoiled puts it before every name that the lab's tape is about.
func spoiled(s string) string {
	for _, name := range []string{"web", "holder", "ghost", "cca-dp"} {
		s = strings.ReplaceAll(s, name, evil+name)
	}
	if s == "lab" { // the node
		return evil + s
	}
	return s
}

// spoil changes all text of a message, however deep.
func spoil(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			all := map[string]protoreflect.Value{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				all[k.String()] = v
				return f.MapKey().Kind() == protoreflect.StringKind && f.MapValue().Kind() == protoreflect.StringKind
			})
			for k, value := range all {
				v.Map().Clear(protoreflect.ValueOfString(k).MapKey())
				v.Map().Set(protoreflect.ValueOfString(spoiled(k)).MapKey(), protoreflect.ValueOfString(spoiled(value.String())))
			}
		case f.IsList():
			for i := range v.List().Len() {
				switch item := v.List().Get(i); f.Kind() {
				case protoreflect.MessageKind:
					spoil(item.Message())
				case protoreflect.StringKind:
					v.List().Set(i, protoreflect.ValueOfString(spoiled(item.String())))
				}
			}
		case f.Kind() == protoreflect.MessageKind:
			spoil(v.Message())
		case f.Kind() == protoreflect.StringKind && f.Name() != "profile_yaml":
			m.Set(f, protoreflect.ValueOfString(spoiled(v.String())))
		case f.Name() == "json": // of the agent's objects
			m.Set(f, protoreflect.ValueOfBytes(spoiledJSON(v.Bytes())))
		}
		return true
	})
}

func spoiledJSON(text []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return text
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			return spoiled(v)
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		panic(err)
	}
	return out
}

// spoilEvent also changes what is a message within bytes, and the profile.
func spoilEvent(t *testing.T, e *eventpb.Event) {
	spoil(e.ProtoReflect())
	for _, f := range e.GetFlows().GetFlows() {
		var flow flowpb.Flow
		if err := proto.Unmarshal(f.Flow, &flow); err != nil {
			t.Fatal(err)
		}
		spoil(flow.ProtoReflect())
		f.Flow, _ = proto.Marshal(&flow)
	}
	for _, l := range e.GetLog().GetLines() {
		l.Text += evil
	}
	if s := e.GetSessionStart(); s.GetProfileYaml() != "" {
		p, err := profile.Parse([]byte(s.ProfileYaml))
		if err != nil {
			t.Fatal(err)
		}
		p.Out = "/tmp/pwned"
		for _, name := range []*string{&p.Name, &p.Namespace, &p.Web.Service, &p.Holder.Pod, &p.NodePort.Service, &p.Ghost.Service} {
			*name = spoiled(*name)
		}
		text, _ := json.Marshal(p)                                           // which is YAML
		s.ProfileYaml = strings.ReplaceAll(string(text), "\u009b", `\u009b`) // YAML has it in no other way
	}
}

// hostileTape is the lab's, with evil in it wherever a name is.
func hostileTape(t *testing.T) string {
	t.Helper()
	from, err := journal.OpenTape("../../testdata/lab.tape")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	header := proto.CloneOf(from.Header())
	spoil(header.ProtoReflect())
	path := filepath.Join(t.TempDir(), "hostile.tape")
	err = journal.WriteTapeFile(path, header, func(w *journal.TapeWriter) error {
		return from.Read(t.Context(), 0, ^uint64(0), func(r journal.Record) error {
			var e eventpb.Event
			if err := proto.Unmarshal(r.Data, &e); err != nil {
				return err
			}
			spoilEvent(t, &e)
			r.Data, err = proto.Marshal(&e)
			if err != nil {
				return err
			}
			return w.Write(r)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// replayed runs the command; both outputs are returned.
func replayed(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"replay"}, args...), Stdout: &o, Stderr: &e, Stdin: strings.NewReader(strings.Repeat("\n", 1000))}
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: a difference was found
		t.Fatalf("replay %q: %v\n%s", args, err, e.String())
	}
	return o.String(), e.String()
}

// steering is the first character that is not for a terminal, 0 for none.
func steering(text string) rune {
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028') {
			return r
		}
	}
	return 0
}

// What is printed for people has as many lines as without evil, none of which steers the terminal.
func TestHostileNamesInTables(t *testing.T) {
	hostile, plain := hostileTape(t), "../../testdata/lab.tape"
	for _, c := range []struct {
		args  []string
		wraps bool // words, so that long names take more lines
	}{
		{[]string{"info"}, false},
		{[]string{"verify"}, false},
		{[]string{"report"}, false},
		{[]string{"events", "--not", "--kind", "flows"}, false},
		{[]string{"events", "--kind", "flows", "--last", "50"}, false},
		{[]string{"timeline"}, false},
		{[]string{"diff", "--from", "+1s"}, false},
		{[]string{"diff", "--from", "+1s", "-o", "diff"}, false},
		{[]string{"explain", "service", "cca-dp/web"}, true},
		{[]string{"explain", "connection", "10.42.0.162:40404"}, true},
		{[]string{"explain", "port", "80"}, true},
		{[]string{"play", "--step", "--from", "+1s", "--to", "+8s", "--out", ""}, false},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			print := func(tape string, change func(string) string) (string, string) {
				args := slices.Clone(c.args)
				for i := range args {
					args[i] = change(args[i])
					if args[i] == "" {
						args[i] = t.TempDir()
					}
				}
				return replayed(t, slices.Insert(args, 1, tape)...)
			}
			out, messages := print(hostile, spoiled)
			want, _ := print(plain, func(s string) string { return s })
			if r := steering(out + messages); r != 0 {
				t.Errorf("%q comes through", r)
			}
			got, lines := strings.Count(out, "\n"), strings.Count(want, "\n")
			if lines == 0 || got != lines && !(c.wraps && got > lines) {
				t.Errorf("%d lines, without evil %d:\n%.3000s", got, lines, out)
			}
		})
	}
}

// What is printed for programs is whole: JSON that can be read, rows as many as without evil.
func TestHostileNamesInExports(t *testing.T) {
	hostile, plain := hostileTape(t), "../../testdata/lab.tape"
	for _, args := range [][]string{
		{"events", "-o", "jsonl"}, {"timeline", "-o", "jsonl"}, {"export", "cloudevents"}, {"export", "hubble-jsonl"},
	} {
		at := len(args)
		if args[0] != "export" {
			at = 1
		}
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			out, _ := replayed(t, slices.Insert(slices.Clone(args), at, hostile)...)
			want, _ := replayed(t, slices.Insert(slices.Clone(args), at, plain)...)
			if got, lines := strings.Count(out, "\n"), strings.Count(want, "\n"); got != lines || lines == 0 {
				t.Errorf("%d lines, without evil %d", got, lines)
			}
			for line := range strings.Lines(out) {
				if !json.Valid([]byte(line)) {
					t.Fatalf("not JSON: %q", line)
				}
			}
		})
	}
	for _, args := range [][]string{
		{"state", hostile, "services.json"}, {"state", hostile, "svc.json"}, {"info", hostile, "-o", "json"},
		{"explain", hostile, "service", spoiled("cca-dp/web"), "-o", "json"}, {"diff", hostile, "--from", "+1s", "-o", "json"}, {"verify", hostile, "-o", "json"},
	} {
		if out, _ := replayed(t, args...); !json.Valid([]byte(out)) || strings.Contains(out, "\x1b") {
			t.Errorf("%q: not JSON, or with an escape: %.500q", args, out)
		}
	}
	out, _ := replayed(t, "export", "csv", hostile)
	want, _ := replayed(t, "export", "csv", plain)
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	benign, _ := csv.NewReader(strings.NewReader(want)).ReadAll()
	if len(rows) != len(benign) || len(rows) < 2 {
		t.Errorf("%d rows of csv, without evil %d", len(rows), len(benign))
	}
	for _, cells := range rows {
		for _, cell := range cells {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				t.Errorf("a spreadsheet would run %q", cell)
			}
		}
	}
}

// The files of a hostile tape are those of any, in the folder that was asked for.
func TestHostileTapeStaysInItsFolder(t *testing.T) {
	dir := t.TempDir()
	names := func(path string) (list []string) {
		entries, err := os.ReadDir(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	replayed(t, "rebuild", "../../testdata/lab.tape", "--out", filepath.Join(dir, "plain"))
	replayed(t, "rebuild", hostileTape(t), "--out", filepath.Join(dir, "a/b/hostile"))
	if got, want := names(filepath.Join(dir, "a/b/hostile")), names(filepath.Join(dir, "plain")); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("files %v, want %v", got, want)
	}
	if got := fmt.Sprint(names(dir), names(filepath.Join(dir, "a")), names(filepath.Join(dir, "a/b"))); got != "[a plain] [b] [hostile]" {
		t.Errorf("folders %s", got)
	}
	if _, err := os.Lstat("/tmp/pwned"); err == nil {
		t.Error("the tape wrote where it wanted")
	}
}

// On a terminal even what is meant for programs steers nothing.
func TestHostileJSONOnATerminal(t *testing.T) {
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	defer ptmx.Close()
	n, err := unix.IoctlGetUint32(int(ptmx.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"replay", "state", hostileTape(t), "services.json"}, Stdout: tty, Stderr: tty}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	out := bufio.NewReader(ptmx)
	text := ""
	for { // until the last one who has the terminal open goes
		line, err := out.ReadString('\n')
		text += strings.TrimSuffix(line, "\r\n")
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	if r := steering(text); r != 0 || !strings.Contains(text, "=1+1") || term.Printable(text) != text {
		t.Errorf("%q comes through: %.300q", r, text)
	}
}

// Events that are not what a recorder writes, though the tape around them is whole, end in an answer or an error.
func TestEventsOfNonsense(t *testing.T) {
	rounds := 4
	if n, err := strconv.Atoi(os.Getenv("TAPEDECK_FAULT_ROUNDS")); err == nil {
		rounds = n
	}
	for seed := range rounds {
		path := nonsense(t, uint64(seed))
		for _, args := range [][]string{
			{"info", path}, {"verify", path}, {"rebuild", path, "--out", t.TempDir()}, {"events", path}, {"timeline", path},
			{"diff", path, "--from", "+3s"}, {"explain", path, "service", "cca-dp/web"}, {"explain", path, "connection", "10.42.0.162:40404"},
			{"export", "cloudevents", path}, {"export", "hubble-jsonl", path}, {"export", "perfetto", path}, {"export", "csv", path},
		} {
			var e bytes.Buffer
			cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"replay"}, args...), Stderr: &e}
			if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 || strings.Contains(e.String(), "goroutine ") {
				t.Errorf("seed %d, replay %q: %v\n%.2000s", seed, args, err, e.String())
			}
		}
	}
}

// nonsense is the lab's tape with bytes of its events changed, at every place where one may be.
func nonsense(t *testing.T, seed uint64) string {
	t.Helper()
	from, err := journal.OpenTape("../../testdata/lab.tape")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	random := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "nonsense.tape")
	err = journal.WriteTapeFile(path, from.Header(), func(w *journal.TapeWriter) error {
		return from.Read(t.Context(), 0, ^uint64(0), func(r journal.Record) error {
			return w.Write(journal.Record{Seq: r.Seq, Data: mutated(r.Data, random)})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// mutated changes bytes of an event, so that it still is one. Of a hundred tries hardly any is none.
func mutated(event []byte, random *rand.Rand) []byte {
	for range 100 {
		b := bytes.Clone(event)
		for range 1 + random.IntN(4) {
			switch at := random.IntN(len(b)); random.IntN(3) {
			case 0:
				b[at] = byte(random.Uint32())
			case 1:
				b[at] ^= 1 << random.IntN(8)
			case 2: // a number at its bounds
				b[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[random.IntN(5)]
			}
		}
		if proto.Unmarshal(b, &eventpb.Event{}) == nil {
			return b
		}
	}
	return event
}
