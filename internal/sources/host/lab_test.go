package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources/sourcetest"
	"golang.org/x/sys/unix"
)

// TestLab compares the source with the node's own tools. It runs on the lab's node, where the namespace cca-dp
// holds the complete lab:
//
//	go test -c -o /tmp/host.test ./internal/sources/host && TAPEDECK_LAB=1 lab/exec /tmp/host.test -test.run Lab -test.v
func TestLab(t *testing.T) {
	sourcetest.NeedLab(t)
	s := snapshot(t, Config{Cluster: labPods(t), Node: "lab", Select: func(*eventpb.KubeObject) bool { return true }})
	t.Run("rules", func(t *testing.T) {
		for _, set := range s.RuleSets[:2] {
			tool := tool(t, set.Command)
			ip := tool1(t, "kubectl", "-n", "cca-dp", "get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}")
			for _, sub := range []string{"CILIUM", "KUBE-SVC", "30780", ip, "-A "} {
				if got, want := with(set.Lines, sub), with(tool, sub); got != want {
					t.Errorf("%s: %d lines with %s, want %d", set.Command, got, sub, want)
				}
			}
		}
	})
	t.Run("program", func(t *testing.T) {
		ep := tool1(t, "kubectl", "-n", "cca-dp", "get", "cep", "holder", "-o", "jsonpath={.status.id}")
		program := tool1(t, "ls", "/sys/fs/bpf/cilium/endpoints/"+ep+"/links")
		dev := tool1(t, "cilium-dbg", "endpoint", "get", ep, "-o", "jsonpath={[0].status.networking.interface-name}")
		found := ""
		for _, a := range s.Attachments.GetAttachments() {
			if a.Device == dev {
				found += a.Attach + " " + a.Program
			}
		}
		if found != "tcx/ingress "+program {
			t.Errorf("at %s: %q, want %s", dev, found, program)
		}
	})
	t.Run("socket load balancing", func(t *testing.T) {
		var got []string
		for _, a := range s.Attachments.GetAttachments() {
			if a.Cgroup != "" {
				got = append(got, a.Program)
			}
			if a.LinkId == 0 || a.Tag == "" || a.Program == "" {
				t.Errorf("incomplete: %v", a)
			}
		}
		want := tool(t, "ls", "/sys/fs/bpf/cilium/socketlb/links/cgroup")
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("neighbours", labNeighbours)
	t.Run("listeners", func(t *testing.T) {
		var got, want []string
		for _, l := range s.Listeners.GetSockets() {
			got = append(got, l.Protocol[:3]+" "+l.Local)
		}
		for _, l := range append(tool(t, "ss", "-Htln"), tool(t, "ss", "-Huan", "state", "unconnected")...) {
			f, protocol := strings.Fields(l), "udp"
			if f[0] == "LISTEN" {
				f, protocol = f[1:], "tcp"
			}
			local, _, _ := strings.Cut(strings.Replace(f[2], "*:", "[::]:", 1), "%")
			want = append(want, protocol+" "+local)
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("sockets of holder", func(t *testing.T) { labHolder(t, s) })
	t.Run("links", func(t *testing.T) {
		if got, want := len(s.Links.GetLinks()), len(tool(t, "ip", "-o", "link")); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	})
	if s.TcFilters == nil || len(s.TcFilters.Filters) != 0 {
		t.Errorf("tc filters %v", s.TcFilters)
	}
}

// labNeighbours compares with ip's list: at once, and again when one of the two saw a neighbour come or go.
func labNeighbours(t *testing.T) {
	var want, got []string
	for range 5 {
		want, got = nil, nil
		for _, n := range snapshot(t, Config{}).Neighbours.GetNeighbours() {
			if !strings.Contains(n.Address, ":") && n.State != "NOARP" && n.State != "INCOMPLETE" {
				got = append(got, n.Address)
			}
		}
		for _, l := range tool(t, "ip", "-4", "-o", "neigh", "show", "nud", "reachable", "nud", "stale", "nud", "delay", "nud", "probe", "nud", "permanent", "nud", "failed") {
			if f := strings.Fields(l); len(f) > 0 { // a node of its own may have none
				want = append(want, f[0])
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if slices.Equal(got, want) {
			return
		}
	}
	t.Error(cmp.Diff(want, got))
}

// labHolder compares with netstat in both pods of the held connection.
func labHolder(t *testing.T, s *eventpb.HostState) {
	remote := ""
	for _, l := range tool(t, "kubectl", "-n", "cca-dp", "exec", "holder", "--", "netstat", "-tn") {
		if f := strings.Fields(l); len(f) > 5 && strings.HasSuffix(f[3], ":40404") {
			remote = f[4] + " " + f[5]
		}
	}
	holder, backend := "", ""
	for _, p := range s.PodSockets {
		for _, k := range p.Sockets {
			if p.Pod == "holder" && strings.HasSuffix(k.Local, ":40404") {
				holder = k.Remote + " " + k.State
			}
			if strings.HasSuffix(k.Remote, ":40404") {
				backend += k.Local + " " + k.State
			}
		}
	}
	if holder != remote || remote == "" || backend != remote {
		t.Errorf("holder says %q, backend says %q, netstat %q", holder, backend, remote)
	}
}

// TestLabTailCalls compares with what bpftool finds in the arrays of programs that are in use.
func TestLabTailCalls(t *testing.T) {
	sourcetest.NeedLab(t)
	links := &links{}
	a := newAttachments(New(Config{}).cfg, links, &filters{})
	if err := links.look(t.Context(), &eventpb.HostState{}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s := reached(t, a)
	t.Logf("%d programs reached, %d maps in use, in %v", len(s.GetReached()), len(s.GetUsedMaps()), time.Since(start))
	known := map[uint32]bool{}
	for _, p := range s.GetAttachments() {
		known[p.ProgramId] = true
	}
	for _, p := range s.GetReached() {
		known[p.ProgramId] = true
	}
	arrays := 0
	for _, m := range s.GetUsedMaps() {
		var shown struct {
			Type, Name string
			MaxEntries uint32 `json:"max_entries"`
		}
		if err := json.Unmarshal([]byte(tool1(t, "bpftool", "-j", "map", "show", "id", fmt.Sprint(m.Id))), &shown); err != nil {
			t.Fatal(err)
		}
		if shown.Name != m.Name || shown.MaxEntries != m.MaxEntries {
			t.Errorf("map %v, bpftool says %v", m, shown)
		}
		if shown.Type != "prog_array" {
			continue
		}
		arrays++
		var slots []struct{ Value []string }
		if err := json.Unmarshal([]byte(tool1(t, "bpftool", "-j", "map", "dump", "id", fmt.Sprint(m.Id))), &slots); err != nil {
			t.Fatal(err)
		}
		for _, slot := range slots {
			id, shift := uint32(0), 0
			for _, b := range slot.Value {
				n, err := strconv.ParseUint(b, 0, 8)
				if err != nil {
					id = 0
					break
				}
				id |= uint32(n) << shift
				shift += 8
			}
			if id != 0 && !known[id] {
				t.Errorf("program %d in %s is not reached", id, m.Name)
			}
		}
	}
	if arrays == 0 || len(s.GetReached()) == 0 {
		t.Errorf("%d arrays of programs, %d programs reached", arrays, len(s.GetReached()))
	}
}

// snapshot is the first event of a run.
func snapshot(t *testing.T, cfg Config) *eventpb.HostState {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &tape{more: make(chan struct{})}
	if err := New(cfg).Run(ctx, r.emit, cancel); err != nil {
		t.Fatal(err)
	}
	return r.events[0].GetHost()
}

func labPods(t *testing.T) *fakeCluster {
	t.Helper()
	c := newCluster()
	for _, l := range tool(t, "kubectl", "-n", "cca-dp", "get", "pods", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.spec.nodeName} {.status.containerStatuses[0].containerID}{"\n"}{end}`) {
		f := strings.Fields(l)
		if len(f) != 4 {
			t.Fatalf("pod %q", l)
		}
		c.pods = append(c.pods, &eventpb.KubeObject{Namespace: "cca-dp", Name: f[0], Uid: f[1], Pod: &eventpb.Pod{NodeName: f[2],
			Phase: "Running", Containers: []*eventpb.Container{{Id: f[3]}}}})
	}
	return c
}

func tool(t *testing.T, name string, args ...string) []string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func tool1(t *testing.T, name string, args ...string) string {
	t.Helper()
	return tool(t, name, args...)[0]
}

func with(lines []string, sub string) (n int) {
	for _, l := range lines {
		if strings.Contains(l, sub) {
			n++
		}
	}
	return n
}

// TestLabIdle says what the source uses of a core on a node at rest; a figure and no condition, since it depends on
// what else the machine does.
func TestLabIdle(t *testing.T) {
	sourcetest.NeedLab(t)
	cluster := labPods(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &tape{more: make(chan struct{})}
	const settle, span = calmAfter + 10*time.Second, 30 * time.Second
	var start time.Duration
	var first time.Time
	err := New(Config{Cluster: cluster, Node: "lab", Select: func(*eventpb.KubeObject) bool { return true }}).Run(ctx, r.emit, func() {
		time.AfterFunc(settle, func() {
			start, first = cpuTime(t), time.Now()
			time.AfterFunc(span, cancel)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	share := float64(cpuTime(t)-start) / float64(time.Since(first))
	t.Logf("%.2f %% of a core, %d events in %v", 100*share, len(r.events), span)
}

// cpuTime is that of this process and the commands it ran.
func cpuTime(t *testing.T) (sum time.Duration) {
	t.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// TestLabPodComesAndGoes sees a new pod's device with its program, and the end of both.
func TestLabPodComesAndGoes(t *testing.T) {
	sourcetest.NeedLab(t)
	const namespace = "t-host"
	ctx, cancel := context.WithCancel(t.Context())
	r := &tape{more: make(chan struct{})}
	ready, ended := make(chan struct{}), make(chan error)
	go func() { ended <- New(Config{}).Run(ctx, r.emit, func() { close(ready) }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-ready
	before := r.events[0].GetHost().GetLinks().GetLinks()
	tool(t, "kubectl", "create", "namespace", namespace)
	defer tool(t, "kubectl", "delete", "namespace", namespace, "--wait=false")
	tool(t, "kubectl", "-n", namespace, "run", "p", "--image=lab.local/tools:1", "--image-pull-policy=Never", "--command", "--", "sleep", "600")

	dev := ""
	r.wait(t, "device", func(s *eventpb.HostState) bool {
		for _, l := range s.GetLinks().GetLinks() {
			if strings.HasPrefix(l.Name, "lxc") && l.Name != "lxc_health" && !slices.ContainsFunc(before, func(b *eventpb.Link) bool { return b.Index == l.Index }) {
				dev = l.Name
			}
		}
		return dev != ""
	})
	program := func(s *eventpb.HostState) bool {
		return slices.ContainsFunc(s.GetAttachments().GetAttachments(), func(a *eventpb.Attachment) bool {
			return a.Device == dev && a.Attach == "tcx/ingress" && a.Program == "cil_from_container"
		})
	}
	r.wait(t, "program", program)
	r.mu.Lock()
	r.events = nil
	r.mu.Unlock()
	tool(t, "kubectl", "-n", namespace, "delete", "pod", "p", "--now")
	r.wait(t, "end of the device", func(s *eventpb.HostState) bool { return s.Links != nil && device(s, dev) == nil })
	r.wait(t, "end of the program", func(s *eventpb.HostState) bool { return s.Attachments != nil && !program(s) })
}
