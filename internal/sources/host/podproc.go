package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// process is one process for as long as it lives: a pid comes again, with another start.
type process struct {
	pid   int
	start uint64 // in ticks since boot
}

// A process's cgroup path names its pod and container, in one of two spellings:
//
//	cgroupfs  /kubepods/burstable/pod1c6f…-…/4b0f… (64 hexadecimal digits)
//	systemd   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1c6f…_….slice/cri-containerd-4b0f….scope
//
// A static pod's uid is there the hash of its file, which the API does not know it by; its container is.
var (
	cgroupPod       = regexp.MustCompile(`pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})\b`)
	cgroupContainer = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
)

// owner is what a cgroup says of a process.
type owner struct {
	uid       string // of the pod, with dashes
	container string // 64 hexadecimal digits
}

// parseCgroup reads /proc/PID/cgroup, of cgroup v1 (a line for each controller), v2 (one line) or both. A monitor
// of CRI-O's stands in the pod's cgroup and is not of the pod.
func parseCgroup(text string) (o owner) {
	if strings.Contains(text, "crio-conmon-") {
		return owner{}
	}
	for line := range strings.Lines(text) {
		if m := cgroupPod.FindStringSubmatch(line); m != nil && o.uid == "" {
			o.uid = strings.ReplaceAll(m[1], "_", "-")
		}
		// The last one: the node itself may be a container.
		if c := cgroupContainer.FindAllString(line, -1); len(c) > 0 && o.container == "" {
			o.container = c[len(c)-1]
		}
	}
	return o
}

// owners finds pods by what their processes' cgroups say.
type owners struct {
	byUID       map[string]*pod
	byContainer map[string]*pod
}

func newOwners(pods []*pod) owners {
	o := owners{map[string]*pod{}, map[string]*pod{}}
	for _, p := range pods {
		o.byUID[p.uid] = p
		for _, c := range p.containers {
			o.byContainer[c] = p
		}
	}
	return o
}

func (o owners) of(w owner) *pod {
	if p := o.byUID[w.uid]; p != nil && w.uid != "" {
		return p
	}
	if w.container == "" {
		return nil
	}
	return o.byContainer[w.container]
}

// findProcesses walks proc once and gives each pod that a process is of its oldest one, which is the one that holds
// the pod's network open and lives as long as the pod.
func findProcesses(proc string, of func(owner) *pod) {
	dirs, err := os.ReadDir(proc)
	if err != nil {
		return
	}
	own, _ := os.Readlink("/proc/self/ns/net")
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, d.Name())
		text, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil {
			continue
		}
		p := of(parseCgroup(string(text)))
		if p == nil {
			continue
		}
		// A runtime's helper may stand in the pod's cgroup and in the node's network.
		if ns, err := os.Readlink(filepath.Join(dir, "ns/net")); err == nil && ns == own {
			continue
		}
		start, err := startTime(proc, pid)
		if err == nil && (p.proc.pid == 0 || start < p.proc.start) {
			p.proc = process{pid, start}
		}
	}
}

// podsHere finds the pods that have a process and a network of their own, whatever the cluster says, by uid.
func podsHere(proc string) map[string]*pod {
	pods := map[string]*pod{}
	findProcesses(proc, func(o owner) *pod {
		if o.uid == "" {
			return nil
		}
		if pods[o.uid] == nil {
			pods[o.uid] = &pod{uid: o.uid}
		}
		return pods[o.uid]
	})
	maps.DeleteFunc(pods, func(_ string, p *pod) bool { return p.proc.pid == 0 })
	return pods
}

// startTime reads when a process started, in ticks since boot. A zombie counts as gone: it has no network.
func startTime(proc string, pid int) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	// The second column is the command in brackets and may hold anything.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	columns := strings.Fields(rest)
	const state, start = 0, 19 // columns 3 and 22
	if len(columns) <= start {
		return 0, fmt.Errorf("process %d: stat has %d columns", pid, len(columns))
	}
	if columns[state] == "Z" || columns[state] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(columns[start], 10, 64)
}

func (p process) alive(proc string) bool {
	if p.pid == 0 {
		return false
	}
	start, err := startTime(proc, p.pid)
	return err == nil && start == p.start
}

// containerIDs are those of a pod's containers, without "containerd://".
func containerIDs(p *eventpb.Pod) (ids []string) {
	for _, c := range p.GetContainers() {
		if _, id, ok := strings.Cut(c.GetId(), "://"); ok && id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}
