package host

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

const (
	// maxSockets is how many sockets of one pod an event holds.
	maxSockets = 4096
	// Reading a pod's sockets costs up to 3 ms, since the kernel walks the table of the whole machine. So it is
	// done at once when counters say that there are more or fewer; after readSoon when some came and went (a
	// readiness probe does that each second); after readLazily when something was carried, which a change from
	// one closing state to the next needs; and after readAnyway.
	readSoon, readLazily, readAnyway = 3 * time.Second, 10 * time.Second, time.Minute
	// Listeners and TIME_WAIT are counted in files of their own, which are read that often.
	countMore = 2 * time.Second
	// What reading may cost: readShare of one core, divided among the pods. A pod may save up readCredit, so that
	// a quiet one is read at once when something happens, and a busy one at a steady pace.
	readShare, readCredit = 0.002, 20 * time.Millisecond
	// A pod with many sockets is read more rarely, so that it does not fill the tape.
	readPerSocket = time.Millisecond
	// Pods are looked at in the first rhythm while something happens to them and for calmAfter then, and in the
	// second afterwards.
	stirredEvery, calmEvery, calmAfter = 500 * time.Millisecond, time.Second, 30 * time.Second
	// A pod without a process is searched for again, more and more rarely until the cluster says more of it.
	scanFirst, scanLast = 250 * time.Millisecond, 10 * time.Second
)

// pod is one whose sockets are recorded.
type pod struct {
	namespace, name, uid string
	containers           []string

	proc     process
	counters counters  // of its network, now
	then     counters  // when it was read last
	read     time.Time // the last time
	next     time.Time // not before
	credit   time.Duration
	last     *eventpb.PodSockets
}

// pods is the topic of sockets inside pods.
type pods struct {
	cfg       Config
	log       *slog.Logger
	changed   <-chan struct{} // closed when list may be out of date
	list      []*pod          // in order of namespace and name
	earned    time.Time       // when the pods got their last credit
	counted   time.Time       // when all counters were read last
	stirred   time.Time       // when something happened last
	scanAt    time.Time
	scanDelay time.Duration
}

func newPods(cfg Config) *pods { return &pods{cfg: cfg, log: cfg.Logger} }

func (p *pods) look(_ context.Context, out *eventpb.HostState) error {
	now := time.Now()
	out.PodSockets = append(out.PodSockets, p.update(now)...)
	p.count(now)
	p.search(now)
	p.earn(now)
	for _, one := range p.list {
		if s := p.sockets(one, now); s != nil {
			one.last = s
			out.PodSockets = append(out.PodSockets, s)
			p.stirred = now
		}
	}
	return nil
}

func (p *pods) every() time.Duration {
	if time.Since(p.stirred) < calmAfter {
		return stirredEvery
	}
	return calmEvery
}

// update takes over the cluster's pods when they changed, and returns the end of those that are there no more.
func (p *pods) update(now time.Time) (ended []*eventpb.PodSockets) {
	if p.cfg.Cluster == nil {
		return nil
	}
	select {
	case <-p.changed:
	default:
		if p.changed != nil {
			return nil
		}
	}
	p.changed = p.cfg.Cluster.Changed()
	known := map[string]*pod{}
	for _, one := range p.list {
		known[one.uid] = one
	}
	p.list = nil
	for _, o := range p.wanted() {
		one := known[o.Uid]
		ids := containerIDs(o.Pod)
		if one == nil {
			one = &pod{namespace: o.Namespace, name: o.Name, uid: o.Uid, credit: readCredit}
		}
		if known[o.Uid] == nil || !slices.Equal(one.containers, ids) {
			p.scanAt, p.scanDelay, p.stirred = now, scanFirst, now
		}
		one.containers = ids
		p.list = append(p.list, one)
		delete(known, o.Uid)
	}
	for _, one := range known {
		if one.last != nil && !one.last.Gone {
			ended = append(ended, one.end())
		}
	}
	slices.SortFunc(ended, func(a, b *eventpb.PodSockets) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUid, b.PodUid))
	})
	return ended
}

// wanted lists the pods to record, without those that run elsewhere, have ended, or use the node's network.
func (p *pods) wanted() (list []*eventpb.KubeObject) {
	for _, o := range p.cfg.Cluster.Objects(eventpb.Kind_KIND_POD) {
		named := slices.Contains(p.cfg.Pods, PodRef{o.Namespace, o.Name})
		if !named && (p.cfg.Select == nil || !p.cfg.Select(o)) {
			continue
		}
		elsewhere := p.cfg.Node != "" && o.Pod.GetNodeName() != p.cfg.Node
		ended := o.Pod.GetPhase() == "Succeeded" || o.Pod.GetPhase() == "Failed"
		if !elsewhere && !ended && !o.Pod.GetHostNetwork() {
			list = append(list, o)
		}
	}
	return list
}

// count reads the pods' counters, and forgets processes that are gone. Whether a process is still the same one is
// only asked when its counters moved.
func (p *pods) count(now time.Time) {
	all := now.Sub(p.counted) >= countMore
	if all {
		p.counted = now
	}
	for _, one := range p.list {
		if one.proc.pid == 0 {
			continue
		}
		before := one.counters
		readable := one.counters.read(p.cfg.Proc, one.proc.pid)
		if all {
			one.counters.readMore(p.cfg.Proc, one.proc.pid)
		}
		if (!readable || one.counters != before) && !one.proc.alive(p.cfg.Proc) {
			p.lose(one, now)
		}
	}
}

// lose forgets a pod's process and has the next search look for another one.
func (p *pods) lose(one *pod, now time.Time) {
	one.proc, one.counters, one.then, one.next = process{}, counters{}, counters{}, time.Time{}
	p.scanAt, p.scanDelay, p.stirred = now, scanFirst, now
}

// search looks for the processes of pods that have none. It walks all processes, so it is not done at each look.
func (p *pods) search(now time.Time) {
	var lost []*pod
	for _, one := range p.list {
		if one.proc.pid == 0 {
			lost = append(lost, one)
		}
	}
	if len(lost) == 0 || now.Before(p.scanAt) {
		return
	}
	findProcesses(p.cfg.Proc, lost)
	p.scanAt = now.Add(p.scanDelay)
	p.scanDelay = min(2*p.scanDelay, scanLast)
	for _, one := range lost {
		if one.proc.pid != 0 {
			one.counters.read(p.cfg.Proc, one.proc.pid)
			one.counters.readMore(p.cfg.Proc, one.proc.pid)
		}
	}
}

// earn gives the pods credit for the time since the last look.
func (p *pods) earn(now time.Time) {
	if len(p.list) > 0 && !p.earned.IsZero() {
		each := time.Duration(readShare * float64(now.Sub(p.earned)) / float64(len(p.list)))
		for _, one := range p.list {
			one.credit = min(one.credit+each, readCredit)
		}
	}
	p.earned = now
}

// sockets reads one pod and returns what is to be said of it, nil for nothing new.
func (p *pods) sockets(one *pod, now time.Time) *eventpb.PodSockets {
	if one.proc.pid == 0 {
		if one.last != nil && !one.last.Gone {
			return one.end()
		}
		return nil
	}
	if now.Before(one.next) || one.credit <= 0 || !one.counters.call(one.then, now.Sub(one.read)) {
		return nil
	}
	start := time.Now()
	found, err := podSockets(p.cfg.Proc, one.proc.pid)
	one.credit -= time.Since(start)
	if !one.proc.alive(p.cfg.Proc) { // it ended meanwhile, or these are another's
		p.lose(one, now)
		return nil
	}
	if err != nil {
		p.log.Warn("a pod's sockets cannot be read", "namespace", one.namespace, "pod", one.name, "error", err)
		one.next = now.Add(readLazily)
		return nil
	}
	one.then, one.read = one.counters, now
	one.next = now.Add(time.Duration(len(found)) * readPerSocket)
	s := one.fact()
	kept, omitted := facts(found, maxSockets)
	s.Sockets, s.Omitted = kept, uint32(omitted)
	if one.last != nil && proto.Equal(s, one.last) {
		return nil
	}
	return s
}

func (one *pod) fact() *eventpb.PodSockets {
	return &eventpb.PodSockets{Namespace: one.namespace, Pod: one.name, PodUid: one.uid}
}

func (one *pod) end() *eventpb.PodSockets {
	s := one.fact()
	s.Gone = true
	return s
}

// podSockets reads the TCP sockets of a process's network.
func podSockets(proc string, pid int) ([]socket, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	found, err := dumpSockets(filepath.Join(dir, "ns/net"), anyState)
	if err == nil {
		return found, nil
	}
	return procSockets(filepath.Join(dir, "net"), "tcp")
}
