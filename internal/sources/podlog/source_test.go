package podlog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The API client pools its connections; they outlive a run.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
}

// running is the source under test, whose events are looked at line by line.
type running struct {
	*sourcetest.Running
	t    *testing.T
	left []string // lines that were not asked for yet
}

func start(t *testing.T, s *Source) *running {
	t.Helper()
	return &running{Running: sourcetest.Run(t, s), t: t}
}

// want waits for these lines: "id: text", and "gap: detail".
func (r *running) want(lines ...string) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Logf("got %q, want %q", r.left, lines)
		}
	}()
	for len(r.left) < len(lines) {
		e := r.Next()
		if g := e.GetGap(); g != nil {
			r.left = append(r.left, "gap: "+g.Detail)
		}
		for _, l := range e.GetLog().GetLines() {
			r.left = append(r.left, e.GetLog().ContainerId+": "+l.Text)
		}
	}
	if !slices.Equal(lines, r.left[:len(lines)]) {
		r.t.FailNow()
	}
	r.left = r.left[len(lines):]
}

// second is a whole second; ns of it follow.
var second = time.Date(2026, 12, 1, 2, 2, 45, 0, time.UTC)

func at(ns int) time.Time { return second.Add(time.Duration(ns)) }

func TestReadsWhatIsThereThenFollows(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "peer=10.43.141.1:80", "")
	n.publish()
	r := start(t, New(n.config()))
	r.want("c1: peer=10.43.141.1:80", "c1: ")
	r.Ready()
	n.log.Log(at(2), "more")
	r.want("c1: more")
}

func TestReadyWithoutAnyPod(t *testing.T) {
	n := newFakeNode(t)
	r := start(t, New(n.config()))
	r.Ready()
	n.log.Begin("c1")
	n.log.Log(at(1), "late")
	n.publish()
	r.want("c1: late")
}

// sinceTime is in whole seconds, so that a reconnect gives lines again (stern#229, #230).
func TestReconnectRepeatsNothing(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "one")
	n.log.Log(at(2), "two", "two again") // two lines with one stamp
	n.log.Log(at(3), "three")
	n.publish()
	r := start(t, New(n.config()))
	r.want("c1: one", "c1: two", "c1: two again", "c1: three")
	r.Ready()
	n.breakStreams(func() {
		n.log.Log(at(3), "three again") // the stamp of a line that was seen
		n.log.Log(at(2), "late two")    // stdout and stderr are not in order
		n.log.Log(at(1e9), "next second")
	})
	r.want("c1: three again", "c1: late two", "c1: next second")
}

func TestRestartGoesOnBehindTheRecordedLine(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "old")
	n.log.Log(at(2), "last recorded")
	n.log.Log(at(3), "new")
	n.publish()
	c := n.config()
	c.Resume = func(id string) int64 {
		if id != "c1" {
			t.Errorf("asked for %s, want c1", id)
		}
		return at(2).UnixNano()
	}
	r := start(t, New(c))
	r.want("c1: new")
}

// A line that was recorded and is not in the log any more: others may be missing with it.
func TestRotationWhileAwayIsAGap(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "one")
	n.publish()
	r := start(t, New(n.config()))
	r.want("c1: one")
	r.Ready()
	n.breakStreams(func() {
		n.log.Rotate()
		n.log.Log(at(5e9), "after")
	})
	r.want("gap: log of shop/holder, container holder: the last line recorded is no longer in it", "c1: after")
}

// A container that restarts is followed on, and the end of the instance before is not lost (stern#13, #165).
func TestRestartedContainer(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "hello")
	n.publish()
	r := start(t, New(n.config()))
	r.want("c1: hello")
	r.Ready()
	n.breakStreams(func() {
		n.log.Log(at(2), "dying")
		n.log.Begin("c2")
		n.log.Log(at(3), "hello again")
		n.publish()
	})
	r.want("c1: dying", "c2: hello again")
	n.log.End()
	n.publish()
	n.log.Begin("c3")
	n.log.Log(at(4e9), "third")
	n.publish()
	r.want("c3: third")
}

// Only the current and the previous instance's logs can be had; what is behind them is told.
func TestInstancesThatNobodyReadAreAGap(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "first")
	n.publish()
	r := start(t, New(n.config()))
	r.want("c1: first")
	r.Ready()
	n.breakStreams(func() {
		for i := 2; i <= 4; i++ {
			n.log.Begin(fmt.Sprint("c", i))
			n.log.Log(at(i), fmt.Sprint("run ", i))
		}
		n.publish()
	})
	r.want("gap: log of shop/holder, container holder: it restarted more often than its logs are kept", "c3: run 3", "c4: run 4")
}

func TestInstanceBeforeIsReadOnceAndItsTailOnly(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	var want []string
	for i := range previousTail + 5 {
		n.log.Log(at(i), fmt.Sprint(i))
		if i >= 5 {
			want = append(want, fmt.Sprintf("c1: %d", i))
		}
	}
	n.log.Begin("c2")
	n.log.Log(at(1e9), "now")
	n.publish()
	r := start(t, New(n.config()))
	r.want(append(want, "c2: now")...)
}

// After an outage the cluster's objects may be behind: the log of the new instance is not taken for the old one's.
func TestNewInstancesLogIsNotTakenForTheOldOnes(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "hello")
	n.publish()
	r := start(t, New(n.config()))
	r.want("c1: hello")
	r.Ready()
	n.breakStreams(func() {
		n.log.Begin("c2") // nobody was told yet
		n.log.Log(at(2), "other")
	})
	asked := n.podRequests()
	sourcetest.Until(t, func() bool { return n.podRequests() > asked })
	n.publish()
	r.want("c2: other")
}

func TestPodMadeAnew(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "first pod")
	n.publish()
	r := start(t, New(n.config()))
	r.want("c1: first pod")
	r.Ready()
	n.replacePod("uid-2", "d1")
	n.log.Log(at(2), "second pod")
	r.want("d1: second pod")
}

func TestUnreadableLogIsTroubleAndNothingComesTwice(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "one")
	n.publish()
	s := New(n.config())
	s.patience = 100 * time.Millisecond
	r := start(t, s)
	r.want("c1: one")
	r.Ready()
	n.breakStreams(func() {
		err := r.Ended()
		var trouble *events.Trouble
		if !errors.As(err, &trouble) || trouble.Mend == "" {
			t.Errorf("Run returned %v, want a Trouble with a mend", err)
		}
		n.log.Log(at(2), "two")
	})
	r = start(t, s)
	r.want("c1: two")
}

// An event that cannot be stored is not blamed on the log.
func TestRefusedEventEndsTheRun(t *testing.T) {
	n := newFakeNode(t)
	n.log.Begin("c1")
	n.log.Log(at(1), "one")
	n.publish()
	refused := errors.New("journal closed")
	emit := func(context.Context, ...*eventpb.Event) error { return refused }
	if err := New(n.config()).Run(t.Context(), emit, func() {}); err != refused {
		t.Errorf("Run returned %v, want %v", err, refused)
	}
}

func TestCheck(t *testing.T) {
	n := newFakeNode(t)
	s := New(n.config())
	check := func(want string) {
		t.Helper()
		f := s.Check(t.Context())[0]
		text := f.Seen
		if f.Err != nil {
			text = f.Err.Error()
		}
		if !strings.Contains(text, want) {
			t.Errorf("%q, want %q in it", text, want)
		}
	}
	check("no such pod yet")
	n.log.Begin("c1")
	check("can be read")
	n.mu.Lock()
	n.status = http.StatusUnauthorized
	n.mu.Unlock()
	check("renew the credentials")
	s.config.Rest = nil
	check("name a kubeconfig")
}
