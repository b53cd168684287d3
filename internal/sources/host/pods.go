package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// pod is one whose sockets are recorded.
type pod struct {
	namespace, name, uid string
	chosen               bool // named or selected
	containers           []string

	proc     process
	counters counters      // of its network, now
	then     counters      // when it was read last
	read     time.Time     // the last time
	next     time.Time     // not before
	credit   time.Duration // of a chosen one
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

	turn    int           // how many turns the other pods have had
	turned  time.Time     // when the last one was
	rest    time.Duration // the other pods' credit
	reads   int           // of other pods, in this look
	leftOut int
	omitted *eventpb.Gap // to be told
	warned  bool         // that there are no cookies
}

func newPods(cfg Config) *pods { return &pods{cfg: cfg, log: cfg.Logger} }

func (p *pods) look(_ context.Context, out *eventpb.HostState) error {
	now := time.Now()
	out.PodSockets = append(out.PodSockets, p.update(now)...)
	due := p.due(now)
	p.count(due, now)
	p.search(now)
	p.earn(now)
	p.reads = 0
	for _, one := range append(p.lost(), due...) {
		if s := p.sockets(one, now); s != nil {
			one.last = s
			out.PodSockets = append(out.PodSockets, s)
			if one.chosen {
				p.stirred = now
			}
		}
	}
	slices.SortFunc(out.PodSockets, comparePodSockets)
	return nil
}

func comparePodSockets(a, b *eventpb.PodSockets) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUid, b.PodUid))
}

// lost are the pods without a process.
func (p *pods) lost() (list []*pod) {
	for _, one := range p.list {
		if one.proc.pid == 0 {
			list = append(list, one)
		}
	}
	return list
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
	for _, o := range p.fitting(p.wanted(), known, now) {
		one := known[o.Uid]
		ids := containerIDs(o.Pod)
		if one == nil {
			one = &pod{namespace: o.Namespace, name: o.Name, uid: o.Uid, credit: readCredit}
		}
		if known[o.Uid] == nil || !slices.Equal(one.containers, ids) {
			p.scanAt, p.scanDelay, p.stirred = now, scanFirst, now
		}
		one.containers, one.chosen = ids, p.chosen(o)
		p.list = append(p.list, one)
		delete(known, o.Uid)
	}
	for _, one := range known {
		if one.last != nil && !one.last.Gone {
			ended = append(ended, one.end())
		}
	}
	return ended
}

// lose forgets a pod's process and has the next search look for another one.
func (p *pods) lose(one *pod, now time.Time) {
	one.proc, one.counters, one.then, one.next = process{}, counters{}, counters{}, time.Time{}
	p.scanAt, p.scanDelay, p.stirred = now, scanFirst, now
}

// search looks for the processes of pods that have none. It walks all processes, so it is not done at each look.
func (p *pods) search(now time.Time) {
	lost := p.lost()
	if len(lost) == 0 || now.Before(p.scanAt) {
		return
	}
	findProcesses(p.cfg.Proc, newOwners(lost).of)
	last := scanRest
	if slices.ContainsFunc(lost, func(one *pod) bool { return one.chosen }) {
		last = scanLast
	}
	p.scanAt = now.Add(p.scanDelay)
	p.scanDelay = min(2*p.scanDelay, last)
	for _, one := range lost {
		if one.proc.pid != 0 {
			one.counters.read(p.cfg.Proc, one.proc.pid)
			one.counters.readMore(p.cfg.Proc, one.proc.pid)
		}
	}
}

// sockets reads one pod and returns what is to be said of it, nil for nothing new.
func (p *pods) sockets(one *pod, now time.Time) *eventpb.PodSockets {
	if one.proc.pid == 0 {
		if one.last != nil && !one.last.Gone {
			return one.end()
		}
		return nil
	}
	if !p.calls(one, now) {
		return nil
	}
	start := time.Now()
	found, cookie, err := podSockets(p.cfg.Proc, one.proc.pid)
	p.pay(one, time.Since(start))
	if !one.proc.alive(p.cfg.Proc) { // it ended meanwhile, or these are another's
		p.lose(one, now)
		return nil
	}
	var less *cookieless
	if errors.As(err, &less) {
		if !p.warned {
			p.warned = true
			p.log.Warn("pods' sockets are told without cookies", "error", less.trouble("pod "+one.namespace+"/"+one.name))
		}
		err = nil
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
	s.Sockets, s.Omitted, s.NetnsCookie = kept, uint32(omitted), cookie
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
