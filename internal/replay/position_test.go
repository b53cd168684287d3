package replay

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"google.golang.org/protobuf/proto"
)

func openLab(t *testing.T) *Session {
	t.Helper()
	s, err := Open(t.Context(), labTape)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func moment(t *testing.T, text string) Moment {
	t.Helper()
	m, err := ParseMoment(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The lab's tape is from 05:43:58.794 (seq:1) to 05:44:22.410 (seq:270); its marks are the shell's, its steps the
// files'.
func TestPositions(t *testing.T) {
	s := openLab(t)
	for text, want := range map[string]uint64{
		"":                              270,
		"seq:93":                        93,
		"mark:step 2":                   93,
		"2026-12-01T05:44:02.667Z":      93,
		"2026-12-01T06:44:02.667+01:00": 93,
		"05:44:02.667":                  93,
		"05:43:58":                      1, // the second in which it starts
		"05:43:58.794":                  1,
		"2026-12-01T05:43:58.794Z":      1,
		"+3.873s":                       93, // 05:44:02.667
		"-19.743s":                      93,
		"19.743s":                       93,  // as Hubble writes it
		"step:6":                        197, // the first request that was answered
	} {
		p, err := s.Position(t.Context(), moment(t, text))
		if err != nil || p.Seq != want {
			t.Errorf("%q is seq:%d (%v), want seq:%d", text, p.Seq, err, want)
		}
	}
}

func TestPositionsOutside(t *testing.T) {
	s := openLab(t)
	for text, want := range map[string]string{
		"05:43:57":             "before its start: the session is from 2026-12-01T05:43:58.794781428Z (seq:1) to 2026-12-01T05:44:22.410",
		"05:44:23":             "after its end",
		"2026-11-30T05:44:00Z": "before its start",
		"1h":                   "before its start",
		"step:9":               "has no step 9; its steps are [1 2 3 4 5 6 7 8]",
		"mark:nobody":          `marks ["step 1" "step 2"`,
	} {
		_, err := s.Position(t.Context(), moment(t, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// tapeOf makes a tape of events.
func tapeOf(t *testing.T, list ...*eventpb.Event) *Session {
	t.Helper()
	h := &eventpb.TapeHeader{SessionId: "s", Node: "n", FirstSeq: 1, LastSeq: uint64(len(list)), FirstNs: list[0].SeenNs, LastNs: list[len(list)-1].SeenNs}
	path := filepath.Join(t.TempDir(), "a.tape")
	err := journal.WriteTapeFile(path, h, func(w *journal.TapeWriter) error {
		for i, e := range list {
			data, err := proto.Marshal(e)
			if err == nil {
				err = w.Write(journal.Record{Seq: uint64(i + 1), Data: data})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

const second = 1_000_000_000

func seenAt(sec int64, source string, body any) *eventpb.Event {
	e := events.New(body.(proto.Message))
	e.Source, e.SeenNs = source, sec*second
	return e
}

func TestUnseen(t *testing.T) {
	const up, down = eventpb.SourceState_SOURCE_STATE_UP, eventpb.SourceState_SOURCE_STATE_DOWN
	s := tapeOf(t,
		seenAt(100, "recorder", &eventpb.Session{Sources: []string{"kube", "bpfmap"}}),
		seenAt(101, "kube", &eventpb.SourceStatus{State: up}),
		seenAt(102, "bpfmap", &eventpb.SourceStatus{State: up}),
		seenAt(110, "kube", &eventpb.SourceStatus{State: down, Error: "no route"}),
		seenAt(120, "kube", &eventpb.Gap{FromNs: 110 * second, ToNs: 120 * second, Reason: eventpb.GapReason_GAP_REASON_SOURCE_DOWN, Detail: "no route"}),
		seenAt(120, "kube", &eventpb.SourceStatus{State: up}),
		seenAt(130, "bpfmap", &eventpb.Gap{FromNs: 114 * second, ToNs: 129 * second, Reason: eventpb.GapReason_GAP_REASON_LATE}),
		seenAt(140, "recorder", &eventpb.Mark{Text: "end"}),
	)
	for text, want := range map[string][]string{
		"+0s":  {"not yet read as a whole since the recorder started: bpfmap, kube"},
		"+5s":  nil,
		"+12s": {"kube did not see all between 1970-01-01T00:01:50.000Z and 1970-01-01T00:02:00.000Z (source down: no route) [seq:5]", "kube was down since 1970-01-01T00:01:50.000Z: no route"},
		"+25s": {"bpfmap did not see all between 1970-01-01T00:01:54.000Z and 1970-01-01T00:02:09.000Z (late) [seq:7]"},
		"":     nil,
	} {
		p, err := s.Position(t.Context(), moment(t, text))
		if err != nil {
			t.Fatal(err)
		}
		then, err := s.StateAt(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Unseen(t.Context(), p, then)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at %q (-want +got):\n%s", text, diff)
		}
	}
}

// A clock time is ambiguous when the session has it on two days.
func TestClockTimeOnTwoDays(t *testing.T) {
	day := int64(24 * 3600)
	s := tapeOf(t, seenAt(36000, "recorder", &eventpb.Mark{Text: "a"}), seenAt(36000+day+60, "recorder", &eventpb.Mark{Text: "b"}))
	_, err := s.Position(t.Context(), moment(t, "10:00:30"))
	if err == nil || !strings.Contains(err.Error(), "1970-01-01T10:00:30Z, 1970-01-02T10:00:30Z") {
		t.Errorf("both days are to be named: %v", err)
	}
	p, err := s.Position(t.Context(), moment(t, "09:00:00"))
	if err != nil || p.Seq != 1 || p.Ns != (day+9*3600)*second {
		t.Errorf("09:00:00 is on the second day alone: %v %v", p, err)
	}
}
