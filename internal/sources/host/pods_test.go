package host

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// fakeProc is a folder like /proc. Its processes have no ns/net, so that sockets are read from net/tcp.
type fakeProc struct {
	t   *testing.T
	dir string
}

func newProc(t *testing.T) fakeProc { return fakeProc{t, t.TempDir()} }

func (p fakeProc) file(pid int, name, text string) {
	write(p.t, filepath.Join(p.dir, strconv.Itoa(pid), name), text, 0o644)
}

func (p fakeProc) stat(pid int, name, state string, start uint64) {
	p.file(pid, "stat", fmt.Sprintf("%d (%s) %s 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 %d 1 1 1\n", pid, name, state, start))
}

// start makes a process of a pod with the sockets of procTCP.
func (p fakeProc) start(pid int, start uint64, uid, container string) {
	p.stat(pid, "labapp", "S", start)
	p.file(pid, "cgroup", "0::/kubepods/burstable/pod"+uid+"/"+container+"\n")
	p.sockets(pid, procTCP, "1", "1", "10")
}

// sockets sets net/tcp and the counters that move when connections come and when they carry something.
func (p fakeProc) sockets(pid int, tcp, established, opens, segments string) {
	p.file(pid, "net/tcp", tcp)
	p.file(pid, "net/snmp", "Ip: Forwarding\nIp: 1\nTcp: RtoMin MaxConn ActiveOpens PassiveOpens CurrEstab InSegs OutSegs\n"+
		"Tcp: 200 -1 "+opens+" 0 "+established+" "+segments+" "+segments+"\n")
	p.file(pid, "net/sockstat", "sockets: used 9\nTCP: inuse 2 orphan 0 tw 0 alloc 3 mem 0\n")
}

func (p fakeProc) stop(pid int) {
	if err := os.RemoveAll(filepath.Join(p.dir, strconv.Itoa(pid))); err != nil {
		p.t.Fatal(err)
	}
}

// fakeCluster holds pods.
type fakeCluster struct {
	pods    []*eventpb.KubeObject
	changed chan struct{}
}

func newCluster(pods ...*eventpb.KubeObject) *fakeCluster {
	return &fakeCluster{pods, make(chan struct{})}
}

func (c *fakeCluster) set(pods ...*eventpb.KubeObject) {
	c.pods = pods
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *fakeCluster) Object(eventpb.Kind, string, string) *eventpb.KubeObject { return nil }
func (c *fakeCluster) Objects(kind eventpb.Kind) []*eventpb.KubeObject {
	if kind != eventpb.Kind_KIND_POD {
		return nil
	}
	return slices.SortedFunc(slices.Values(c.pods), func(a, b *eventpb.KubeObject) int { return cmp.Compare(a.Name, b.Name) })
}
func (c *fakeCluster) Changed() <-chan struct{} { return c.changed }

func podObject(name, uid string, edit ...func(*eventpb.Pod)) *eventpb.KubeObject {
	p := &eventpb.Pod{NodeName: "lab", Phase: "Running", Containers: []*eventpb.Container{{Id: "containerd://" + idA}}}
	for _, e := range edit {
		e(p)
	}
	return &eventpb.KubeObject{Namespace: "shop", Name: name, Uid: uid, Pod: p}
}

// heard is what looks say, as lines.
func heard(t *testing.T, p *pods) (lines []string) {
	t.Helper()
	out := &eventpb.HostState{}
	if err := p.look(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	for _, s := range out.PodSockets {
		what := fmt.Sprint(len(s.Sockets))
		if s.Gone {
			what = "gone"
		}
		lines = append(lines, s.Pod+" "+s.PodUid[:2]+" "+what)
	}
	return lines
}

func TestPodSocketsFollowThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proc, uidB := newProc(t), "2b"+uidA[2:]
		cluster := newCluster(podObject("holder", uidA))
		p := newPods(New(Config{Cluster: cluster, Proc: proc.dir, Node: "lab", Pods: []PodRef{{"shop", "holder"}}}).cfg)
		expect := func(when string, want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			if diff := gocmp.Diff(want, heard(t, p)); diff != "" {
				t.Errorf("%s: %s", when, diff)
			}
		}
		expect("no process yet")
		proc.start(100, 1000, uidA, idA)
		expect("its process is there", "holder 1c 3")
		expect("nothing changed")
		proc.sockets(100, "heading\n", "0", "1", "20")
		expect("the connections ended", "holder 1c 0")
		proc.stop(100)
		proc.start(100, 2000, uidB, idA[1:]+"0")
		expect("the pid is another pod's now", "holder 1c gone")
		proc.start(101, 2001, uidA, idA)
		expect("its container was started again", "holder 1c 3")
		cluster.set(podObject("holder", uidB))
		expect("another pod has its name", "holder 1c gone", "holder 2b 3")
		cluster.set()
		expect("deleted", "holder 2b gone")
		expect("for good")
	})
}

func TestPodSocketsAreReadWhenCountersSaySo(t *testing.T) {
	for name, c := range map[string]struct {
		established, opens, segments string
		after                        time.Duration
	}{
		"a connection ended":           {"0", "1", "20", 0},
		"one ended and another opened": {"1", "2", "20", readSoon},
		"something was carried":        {"1", "1", "20", readLazily},
		"nothing that is counted":      {"1", "1", "10", readAnyway},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				proc := newProc(t)
				proc.start(100, 1000, uidA, idA)
				p := newPods(New(Config{Cluster: newCluster(podObject("holder", uidA)), Proc: proc.dir, Pods: []PodRef{{"shop", "holder"}}}).cfg)
				heard(t, p)
				proc.sockets(100, "heading\n", c.established, c.opens, c.segments)
				start := time.Now()
				for {
					time.Sleep(500 * time.Millisecond)
					if got := heard(t, p); got != nil {
						break
					}
				}
				if took := time.Since(start); took < c.after || took > c.after+time.Second {
					t.Errorf("read after %v, want %v", took, c.after)
				}
			})
		})
	}
}

// Other networks' doing, which /proc/PID/net/sockstat counts too, calls for nothing.
func TestCountersOfTheWholeMachineAreLeftOut(t *testing.T) {
	proc := newProc(t)
	proc.start(100, 1000, uidA, idA)
	count := func() (c counters) {
		if !c.read(proc.dir, 100) {
			t.Error("cannot read counters")
		}
		c.readMore(proc.dir, 100)
		return c
	}
	before := count()
	proc.file(100, "net/sockstat", "sockets: used 900\nTCP: inuse 2 orphan 7 tw 0 alloc 333 mem 71\n")
	if after := count(); after != before || before.established == "" || before.inuse == "" {
		t.Errorf("%+v, then %+v", before, after)
	}
	proc.file(100, "net/sockstat6", "TCP6: inuse 1\n")
	if after := count(); !after.call(before, 0) {
		t.Error("a listener on IPv6 is not noticed")
	}
}

func TestPodsThatAreNotRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*eventpb.Pod)
		want []string
	}{
		"of this node":              {func(*eventpb.Pod) {}, []string{"holder 1c 3"}},
		"of another node":           {func(p *eventpb.Pod) { p.NodeName = "other" }, nil},
		"with the node's network":   {func(p *eventpb.Pod) { p.HostNetwork = true }, nil},
		"ended":                     {func(p *eventpb.Pod) { p.Phase = "Succeeded" }, nil},
		"without known containers":  {func(p *eventpb.Pod) { p.Containers = nil }, []string{"holder 1c 3"}},
		"with a container starting": {func(p *eventpb.Pod) { p.Containers[0].Id = "" }, []string{"holder 1c 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			proc := newProc(t)
			proc.start(100, 1000, uidA, idA)
			selected := func(o *eventpb.KubeObject) bool { return o.Name == "holder" }
			cluster := newCluster(podObject("holder", uidA, c.edit), podObject("web", "2b"+uidA[2:]))
			p := newPods(New(Config{Cluster: cluster, Node: "lab", Proc: proc.dir, Select: selected}).cfg)
			if diff := gocmp.Diff(c.want, heard(t, p)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestThePodsOldestProcessIsUsed(t *testing.T) {
	proc := newProc(t)
	proc.start(100, 3000, uidA, idA)
	proc.start(200, 1000, uidA, idA[1:]+"0") // the sandbox; pids start again from the bottom
	proc.start(300, 2000, uidA, idA)
	one := &pod{uid: uidA}
	findProcesses(proc.dir, []*pod{one})
	if one.proc.pid != 200 {
		t.Errorf("process %+v", one.proc)
	}
}

func TestPodsAreLookedAtMoreOftenWhileSomethingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proc := newProc(t)
		proc.start(100, 1000, uidA, idA)
		p := newPods(New(Config{Cluster: newCluster(podObject("holder", uidA)), Proc: proc.dir, Pods: []PodRef{{"shop", "holder"}}}).cfg)
		heard(t, p)
		lively := p.every()
		time.Sleep(time.Minute)
		heard(t, p)
		calm := p.every()
		proc.stop(100)
		heard(t, p)
		if again := p.every(); lively != stirredEvery || calm != calmEvery || again != stirredEvery {
			t.Errorf("every %v, then %v, then %v", lively, calm, again)
		}
	})
}
