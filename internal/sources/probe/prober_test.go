package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The API client pools its connections; they outlive a run.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
}

// stage is one probe with a made-up subject and answers, in the bubble's time.
type stage struct {
	cluster *sourcetest.Cluster
	begin   time.Time

	mu      sync.Mutex
	subject subject // none while its target is ""
	answer  func(context.Context, subject) (*eventpb.ProbeResult, error)
	got     []string // "seconds: what"
	ready   bool
	stop    context.CancelFunc
	done    chan error
}

func code(n int32) func(context.Context, subject) (*eventpb.ProbeResult, error) {
	return func(context.Context, subject) (*eventpb.ProbeResult, error) {
		return &eventpb.ProbeResult{HttpCode: n}, nil
	}
}

func newStage(t *testing.T, s subject) *stage {
	g := &stage{cluster: sourcetest.NewCluster(), begin: time.Now(), subject: s, answer: code(200), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	g.stop = cancel
	p := probe{
		name: "p", settled: answered,
		subject: func() (subject, bool) {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.subject, g.subject.target != ""
		},
		request: func(ctx context.Context, s subject) (*eventpb.ProbeResult, error) {
			g.mu.Lock()
			answer := g.answer
			g.mu.Unlock()
			return answer(ctx, s)
		},
	}
	emit := func(ctx context.Context, list ...*eventpb.Event) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, e := range list {
			what := fmt.Sprint(e.GetProbe().GetHttpCode())
			if gap := e.GetGap(); gap != nil {
				what = fmt.Sprintf("gap of %v: %s", time.Duration(gap.ToNs-gap.FromNs), gap.Detail)
			}
			g.got = append(g.got, fmt.Sprintf("%v: %s", time.Since(g.begin), what))
		}
		return ctx.Err()
	}
	source := New(Config{Cluster: g.cluster})
	go func() {
		g.done <- source.run(ctx, emit, func() { g.mu.Lock(); g.ready = true; g.mu.Unlock() }, []probe{p})
	}()
	synctest.Wait()
	return g
}

func (g *stage) set(s subject, answer func(context.Context, subject) (*eventpb.ProbeResult, error)) {
	g.mu.Lock()
	g.subject, g.answer = s, answer
	g.mu.Unlock()
	g.cluster.Set()
	synctest.Wait()
}

func (g *stage) isReady() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ready
}

func (g *stage) end(t *testing.T, want ...string) {
	t.Helper()
	g.stop()
	if err := <-g.done; err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(want, g.got); d != "" {
		t.Error(d)
	}
}

func TestAsksEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, subject{target: "a"})
		if !g.isReady() {
			t.Error("not ready after the first answer")
		}
		time.Sleep(61 * time.Second)
		g.end(t, "0s: 200", "30s: 200", "1m0s: 200")
	})
}

// A NodePort that is not programmed yet is asked again soon, so that the answer is not half a minute late.
func TestAsksSoonAgainUntilAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, subject{})
		if !g.isReady() {
			t.Error("not ready though there is nothing to ask")
		}
		g.set(subject{target: "a"}, code(0))
		time.Sleep(1500 * time.Millisecond)
		g.mu.Lock()
		g.answer = code(200)
		g.mu.Unlock()
		time.Sleep(31*time.Second + 600*time.Millisecond)
		g.end(t, "0s: 0", "200ms: 0", "600ms: 0", "1.4s: 0", "3s: 200", "33s: 200")
	})
}

func TestWaitsNoLongerThanTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, subject{})
		g.set(subject{target: "a"}, code(0))
		time.Sleep(10 * time.Minute)
		g.mu.Lock()
		defer g.mu.Unlock()
		n := len(g.got)
		last := strings.TrimSuffix(g.got[n-1], ": 0")
		before := strings.TrimSuffix(g.got[n-2], ": 0")
		a, _ := time.ParseDuration(last)
		b, _ := time.ParseDuration(before)
		if a-b != defaultInterval {
			t.Errorf("asked at %v and %v, want %v between", b, a, defaultInterval)
		}
		g.stop()
	})
}

func TestABurstOfChangesIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, subject{target: "a"})
		time.Sleep(time.Second)
		for i := range 8 {
			g.set(subject{target: "a", version: fmt.Sprint(i)}, code(201))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		g.end(t, "0s: 200", "1.1s: 201")
	})
}

// Changes that never pause do not keep it from asking.
func TestSteadyChangesAreStillAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, subject{target: "a"})
		for i := range 100 {
			g.set(subject{target: "a", version: fmt.Sprint(i)}, code(200))
			time.Sleep(50 * time.Millisecond)
		}
		g.stop()
		<-g.done
		if len(g.got) < 30 {
			t.Errorf("asked %d times in 5 s, want about every 150 ms", len(g.got))
		}
	})
}

// The answer to a request under way when the subject goes is of no subject: nothing is emitted.
func TestAGoneSubjectHasNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, subject{})
		g.set(subject{target: "a"}, func(ctx context.Context, _ subject) (*eventpb.ProbeResult, error) {
			<-ctx.Done()
			return &eventpb.ProbeResult{ExitCode: 28}, nil
		})
		g.set(subject{}, code(200))
		time.Sleep(time.Minute)
		g.end(t)
	})
}

func TestWhatCouldNotBeAskedIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, subject{})
		g.set(subject{target: "a"}, func(context.Context, subject) (*eventpb.ProbeResult, error) {
			time.Sleep(50 * time.Millisecond)
			return nil, errors.New("exec: no route")
		})
		time.Sleep(time.Second)
		g.mu.Lock()
		g.answer = code(200)
		g.mu.Unlock()
		time.Sleep(time.Second)
		g.end(t,
			"50ms: gap of 50ms: p: request could not be made: exec: no route",
			"1.55s: gap of 1.55s: p: requests could not be made", "1.55s: 200")
	})
}
