package host

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// maxPods is how many pods' sockets are recorded.
const maxPods = 250

// wanted lists the pods to record, without those that run elsewhere, have ended, or use the node's network.
func (p *pods) wanted() (list []*eventpb.KubeObject) {
	for _, o := range p.cfg.Cluster.Objects(eventpb.Kind_KIND_POD) {
		if !p.cfg.All && !p.chosen(o) {
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

func (p *pods) chosen(o *eventpb.KubeObject) bool {
	return slices.Contains(p.cfg.Pods, PodRef{o.Namespace, o.Name}) || p.cfg.Select != nil && p.cfg.Select(o)
}

// fitting leaves out the pods beyond maxPods: first others than the chosen ones, and of them those that are new. That
// there are such is told when it begins.
func (p *pods) fitting(list []*eventpb.KubeObject, known map[string]*pod, now time.Time) []*eventpb.KubeObject {
	out := max(0, len(list)-maxPods)
	if out > 0 && p.leftOut == 0 {
		p.omitted = &eventpb.Gap{FromNs: now.UnixNano(), ToNs: now.UnixNano(), Reason: eventpb.GapReason_GAP_REASON_LATE, Count: uint64(out),
			Detail: fmt.Sprintf("sockets of %d pods are not recorded: the node has more than %d", out, maxPods)}
		p.log.Warn("the sockets of some pods are not recorded, there are too many", "pods", len(list), "recorded", maxPods)
	}
	p.leftOut = out
	if out == 0 {
		return list
	}
	rank := func(o *eventpb.KubeObject) int {
		switch {
		case p.chosen(o):
			return 0
		case known[o.Uid] != nil:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b *eventpb.KubeObject) int { return cmp.Compare(rank(a), rank(b)) })
	list = list[:maxPods]
	slices.SortFunc(list, func(a, b *eventpb.KubeObject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Uid, b.Uid))
	})
	return list
}

// gap is what has been left out and not told yet.
func (p *pods) gap() *eventpb.Gap {
	gap := p.omitted
	p.omitted = nil
	return gap
}
