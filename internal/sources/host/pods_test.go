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
	findProcesses(proc.dir, newOwners([]*pod{one}).of)
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

// several are pods a000, a001 … with a process each, which begins at pid 1000.
func several(proc fakeProc, n int) (list []*eventpb.KubeObject) {
	for i := range n {
		uid := fmt.Sprintf("%08x%s", i+1, uidA[8:])
		proc.start(1000+i, 1000, uid, idA)
		list = append(list, podObject(fmt.Sprintf("a%03d", i), uid, func(p *eventpb.Pod) { p.Containers = nil }))
	}
	return list
}

func TestAllPodsOfTheNodeAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proc := newProc(t)
		pods := several(proc, 40)
		pods[7].Pod.NodeName = "other"
		p := newPods(New(Config{Cluster: newCluster(pods...), Proc: proc.dir, Node: "lab", All: true}).cfg)
		seen := map[string]bool{}
		for range 60 {
			for _, line := range heard(t, p) {
				seen[line] = true
			}
			time.Sleep(p.every())
		}
		if len(seen) != 39 || seen["a007 00 3"] || !seen["a039 00 3"] {
			t.Errorf("after a minute %d pods: %v", len(seen), seen)
		}
		proc.stop(1011)
		time.Sleep(countRest)
		if got := heard(t, p); !slices.Contains(got, "a011 00 gone") {
			t.Errorf("after the end of a011: %v", got)
		}
	})
}

// A named pod among many is read at once, however much happens in the others.
func TestChosenPodNeedNotWaitForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proc := newProc(t)
		pods := append(several(proc, 100), podObject("holder", uidA))
		proc.start(100, 1000, uidA, idA)
		p := newPods(New(Config{Cluster: newCluster(pods...), Proc: proc.dir, All: true, Pods: []PodRef{{"shop", "holder"}}}).cfg)
		if got := heard(t, p); !slices.Contains(got, "holder 1c 3") || len(got) != 1+restReads {
			t.Errorf("at first %v", got)
		}
		for i := range 30 {
			for j := range 100 {
				proc.sockets(1000+j, "heading\n", fmt.Sprint(i), "1", "10")
			}
			text := "heading\n" // other sockets each time
			if i%2 == 0 {
				text = procTCP
			}
			proc.sockets(100, text, fmt.Sprint(i), "1", "10")
			time.Sleep(time.Second)
			if got := heard(t, p); i > 0 && (!slices.ContainsFunc(got, func(s string) bool { return s[:6] == "holder" }) || len(got) > 1+restReads) {
				t.Errorf("after %d s: %v", i, got)
			}
		}
	})
}

func TestTooManyPodsAreSaidOnce(t *testing.T) {
	proc := newProc(t)
	var pods []*eventpb.KubeObject
	for i := range maxPods + 50 {
		pods = append(pods, podObject(fmt.Sprintf("b%03d", i), fmt.Sprintf("%08x%s", i+1, uidA[8:])))
	}
	holder := podObject("z-holder", uidA)
	cluster := newCluster(append(slices.Clone(pods), holder)...)
	p := newPods(New(Config{Cluster: cluster, Proc: proc.dir, All: true, Pods: []PodRef{{"shop", "z-holder"}}}).cfg)
	names := func() map[string]bool {
		heard(t, p)
		set := map[string]bool{}
		for _, one := range p.list {
			set[one.name] = true
		}
		return set
	}
	got := names()
	if len(got) != maxPods || !got["z-holder"] || !got["b000"] || got["b299"] {
		t.Errorf("%d pods, with the named one: %v", len(got), got["z-holder"])
	}
	if gap := p.gap(); gap.GetCount() != 51 || gap.GetDetail() != "sockets of 51 pods are not recorded: the node has more than 250" {
		t.Errorf("gap %v", gap)
	}
	// A new pod does not take the place of one that is recorded.
	cluster.set(append(slices.Clone(pods), holder, podObject("a-new", "2b"+uidA[2:]))...)
	if got := names(); got["a-new"] || !got["b000"] || !got["b248"] {
		t.Error("the new one is recorded instead of another")
	}
	if gap := p.gap(); gap != nil {
		t.Errorf("said again: %v", gap)
	}
}

// What check says of pods must not hang on a cluster that it has not heard from.
func TestCheckCountsThePodsThatAreThere(t *testing.T) {
	proc := newProc(t)
	proc.stat(1, "init", "S", 1)
	several(proc, 2)
	proc.start(100, 1000, "1-2-3", "x") // of no pod
	if f := podsFinding(New(Config{Proc: proc.dir}).cfg); f.Err != nil || f.Seen != "6 in 2 pods with a network of their own" {
		t.Errorf("found %+v", f)
	}
}
