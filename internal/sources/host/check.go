package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"golang.org/x/sys/unix"
)

// Check makes every look once, those that are made in slices to their end.
func (s *Source) Check(ctx context.Context) []sources.Finding {
	r := newRun(s.cfg, nil)
	state := &eventpb.HostState{}
	findings := []sources.Finding{fileSystem("BPF file system "+s.cfg.BPFFS, s.cfg.BPFFS, unix.BPF_FS_MAGIC,
		"mount it: mount -t bpf bpf "+s.cfg.BPFFS)}
	for _, t := range r.topics {
		err := t.look(ctx, state)
		for p, ok := t.looker.(paced); ok && err == nil && p.every() == 0; {
			err = t.look(ctx, state)
		}
		if err != nil {
			findings = append(findings, sources.Finding{Thing: t.name, Err: &events.Trouble{Thing: t.name, Cause: err, Mend: "run as root on the node"}})
		}
	}
	for _, set := range state.RuleSets {
		findings = append(findings, rulesFinding(set))
	}
	programs := s.programsFinding(state)
	findings = append(findings, programs)
	if programs.Err == nil { // what is not seen calls nothing
		findings = append(findings, tailCallsFinding(state))
	}
	findings = append(findings, s.cgroupFinding(state))
	return append(findings, countFindings(s.cfg, state)...)
}

// fileSystem checks that a path is the root of, or lies on, a file system of the kind.
func fileSystem(thing, path string, magic uint32, mend string) sources.Finding {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	if err == nil && uint32(st.Type) != magic {
		err = errors.New("no such file system is mounted there")
	}
	if err != nil {
		return sources.Finding{Thing: thing, Err: &events.Trouble{Thing: thing, Cause: err, Mend: mend}}
	}
	return sources.Finding{Thing: thing, Seen: "mounted"}
}

func rulesFinding(set *eventpb.RuleSet) sources.Finding {
	f := sources.Finding{Thing: set.Command}
	if set.Unreadable != "" {
		mend := "install the iptables version that wrote the rules"
		switch {
		case strings.HasSuffix(set.Unreadable, "not installed"):
			mend = "install iptables; until then rules are recorded as unreadable"
		case strings.Contains(strings.ToLower(set.Unreadable), "permission denied"):
			mend = "give the recorder CAP_NET_ADMIN"
		}
		f.Err = &events.Trouble{Thing: "rules", Cause: errors.New(set.Unreadable), Mend: mend}
		return f
	}
	rules := 0
	for _, l := range set.Lines {
		if strings.HasPrefix(l, "-A ") {
			rules++
		}
	}
	f.Seen = fmt.Sprintf("%d lines, %d rules, %s", len(set.Lines), rules, set.Version)
	return f
}

// What the kernel asks for, where it asks for a right.
const (
	mendPrograms = "give the recorder CAP_SYS_ADMIN: the kernel lets nobody else open programs, maps and links by their ids"
	mendCgroups  = "give the recorder CAP_DAC_READ_SEARCH, with which a cgroup is opened by its id"
)

func (s *Source) programsFinding(state *eventpb.HostState) sources.Finding {
	f := sources.Finding{Thing: "programs at devices"}
	for _, u := range state.Attachments.GetUnreadable() {
		if !strings.HasPrefix(u, "cgroup ") && !strings.HasPrefix(u, "tail calls") {
			f.Err = &events.Trouble{Thing: "BPF programs", Cause: errors.New(u), Mend: mendPrograms}
			return f
		}
	}
	programs, devices := 0, map[int32]bool{}
	for _, a := range state.Attachments.GetAttachments() {
		if a.Ifindex != 0 {
			programs++
			devices[a.Ifindex] = true
		}
	}
	f.Seen = fmt.Sprintf("%d programs at %d of %d devices", programs, len(devices), len(state.Links.GetLinks()))
	return f
}

func tailCallsFinding(state *eventpb.HostState) sources.Finding {
	f := sources.Finding{Thing: "tail calls"}
	for _, u := range state.Attachments.GetUnreadable() {
		if strings.HasPrefix(u, "tail calls") {
			f.Err = &events.Trouble{Thing: "programs behind tail calls", Cause: errors.New(u), Mend: mendPrograms}
			return f
		}
	}
	f.Seen = fmt.Sprintf("%d programs reached, %d maps in use", len(state.Attachments.GetReached()), len(state.Attachments.GetUsedMaps()))
	return f
}

func (s *Source) cgroupFinding(state *eventpb.HostState) sources.Finding {
	f := fileSystem("cgroup "+s.cfg.CgroupRoot, s.cfg.CgroupRoot, unix.CGROUP2_SUPER_MAGIC,
		"name the folder where Cilium mounts cgroup v2 (its option cgroup-root)")
	if f.Err != nil {
		return f
	}
	for _, u := range state.Attachments.GetUnreadable() {
		if strings.HasPrefix(u, "cgroup ") {
			f.Err = &events.Trouble{Thing: "programs of socket load balancing", Cause: errors.New(u), Mend: mendPrograms}
			if strings.HasPrefix(u, cgroupsByID) {
				f.Err = &events.Trouble{Thing: "programs of socket load balancing", Cause: errors.New(u), Mend: mendCgroups}
			}
			return f
		}
	}
	here, elsewhere := 0, map[string]int{}
	for _, a := range state.Attachments.GetAttachments() {
		switch {
		case a.CgroupId == 0:
		case a.Cgroup == s.cfg.CgroupRoot:
			here++
		default:
			elsewhere[cmp.Or(a.Cgroup, fmt.Sprintf("cgroup %d", a.CgroupId))]++
		}
	}
	f.Seen = fmt.Sprintf("%d programs of socket load balancing", here)
	for _, at := range slices.Sorted(maps.Keys(elsewhere)) {
		f.Seen += fmt.Sprintf(", %d at %s", elsewhere[at], at)
	}
	return f
}

func countFindings(cfg Config, state *eventpb.HostState) []sources.Finding {
	list := []sources.Finding{
		{Thing: "listening sockets", Seen: fmt.Sprintf("%d", len(state.Listeners.GetSockets()))},
		{Thing: "neighbours", Seen: fmt.Sprintf("%d", len(state.Neighbours.GetNeighbours())+int(state.Neighbours.GetOmitted()))},
		{Thing: "tc filters", Seen: fmt.Sprintf("at %d hooks", len(state.TcFilters.GetFilters()))},
	}
	if _, err := startTime(cfg.Proc, 1); err != nil {
		cause := err
		if errors.Is(err, fs.ErrNotExist) {
			cause = errors.New("no process 1")
		}
		return append(list, sources.Finding{Thing: "processes in " + cfg.Proc, Err: &events.Trouble{
			Thing: cfg.Proc, Cause: cause, Mend: "give the /proc of the node's process namespace (hostPID in a pod)"}})
	}
	return append(list, podsFinding(cfg))
}

// podsFinding reads the sockets of every pod that has a process here: which pods there are, only a running source hears
// from the cluster.
func podsFinding(cfg Config) sources.Finding {
	f := sources.Finding{Thing: "sockets inside pods"}
	pods, n := podsHere(cfg.Proc), 0
	for _, uid := range slices.Sorted(maps.Keys(pods)) {
		found, _, err := podSockets(cfg.Proc, pods[uid].proc.pid)
		n += len(found)
		var less *cookieless
		switch name := "the pod with uid " + uid; {
		case err == nil, errors.Is(err, fs.ErrNotExist): // it has just ended
		case errors.As(err, &less):
			f.Err = less.trouble(name)
			return f
		default:
			f.Err = &events.Trouble{Thing: "sockets of " + name, Cause: err, Mend: "give the recorder the node's process namespace (hostPID in a pod)"}
			return f
		}
	}
	f.Seen = fmt.Sprintf("%d in %d pods with a network of their own", n, len(pods))
	if len(pods) > maxPods {
		f.Seen += fmt.Sprintf(", of which %d are recorded", maxPods)
	}
	return f
}
