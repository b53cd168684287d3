package projections

import (
	"cmp"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// affinityRow is a client whose next connection goes to the backend it had before.
type affinityRow struct {
	Service   *string  `json:"service"`
	Frontends []string `json:"frontends"`
	Client    *string  `json:"client"` // its address; null under socket load balancing
	// The cookie of the client's network namespace, under socket load balancing, and the pod whose that is; null for the
	// node itself and for pods that are not recorded.
	NetnsCookie  *uint64 `json:"netns_cookie"`
	Node         bool    `json:"node"` // the client is the node
	ClientPod    *string `json:"client_pod"`
	BackendID    uint32  `json:"backend_id"`
	Backend      *string `json:"backend"`
	BackendState *string `json:"backend_state"`
	Seconds      *uint32 `json:"affinity_seconds"`
	// When it was used last at the time the entry was recorded (later uses alone are no change), and when it ends at the
	// earliest.
	UsedAt *string `json:"used_at"`
	Until  *string `json:"until"`
}

// binding is an entry of an affinity map.
type binding struct {
	cilium.Affinity
	v6 bool
}

func (b *binding) compare(o *binding) int {
	return cmp.Or(cmp.Compare(b.RevNAT, o.RevNAT), b.Client.Compare(o.Client), cmp.Compare(b.NetNS, o.NetNS))
}

// bindings are those that were used last, up to maxConnections of each family, and how many more there are.
func (s *State) bindings() (list []binding, omitted int) {
	for _, kind := range []cilium.Kind{cilium.Affinity4, cilium.Affinity6} {
		m := s.mapOf(kind)
		if m == nil {
			continue
		}
		var of []binding
		for k, v := range m.Entries {
			if a, err := cilium.DecodeAffinity([]byte(k), []byte(v.Bytes)); err == nil {
				of = append(of, binding{a, kind == cilium.Affinity6})
			}
		}
		slices.SortFunc(of, func(a, b binding) int { return cmp.Or(cmp.Compare(b.LastUsed, a.LastUsed), a.compare(&b)) })
		listed := of[:min(len(of), maxConnections)]
		omitted += len(of) - len(listed)
		slices.SortFunc(listed, func(a, b binding) int { return a.compare(&b) })
		list = append(list, listed...)
	}
	return list, omitted
}

func (c *connections) affinity(b binding, namespaces map[uint64]Name, clock func(uint64) time.Time) affinityRow {
	id := revNAT{b.v6, b.RevNAT}
	r := affinityRow{Frontends: []string{}, BackendID: b.BackendID, NetnsCookie: unlessZero(b.NetNS)}
	for _, k := range c.front(id).keys {
		r.Frontends = append(r.Frontends, k.String())
		r.Seconds = unlessZero(max(c.s.LB.frontends[k].Affinity, deref(r.Seconds)))
	}
	r.Service = c.service(id, l4{})
	x := connection{id: id, backendID: b.BackendID}
	r.BackendState, _ = c.stateOf(&x)
	if at, ok := c.s.LB.lastAddress(backendKey{b.v6, b.BackendID}); ok {
		r.Backend = some(at.address.String())
	}
	if b.Client.IsValid() {
		r.Client, r.ClientPod = some(b.Client.String()), c.s.podAt(b.Client)
	} else if pod, ok := namespaces[b.NetNS]; ok {
		r.ClientPod = some(pod.String())
	}
	r.Node = b.NetNS != 0 && b.NetNS == c.s.Host.Listeners.GetNetnsCookie()
	if clock != nil {
		at := clock(b.LastUsed)
		r.UsedAt = stamp(at.UnixNano())
		if r.Seconds != nil {
			r.Until = stamp(at.Add(time.Duration(*r.Seconds) * time.Second).UnixNano())
		}
	}
	return r
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// namespaces are the pods by the cookies of their network namespaces.
func (s *State) namespaces() map[uint64]Name {
	all := map[uint64]Name{}
	for pod, of := range s.Host.PodSockets {
		if of.netns != 0 {
			all[of.netns] = pod
		}
	}
	return all
}

// clock reads the times of maps; nil while it is not known which clock the agent has set.
func (s *State) clock() func(uint64) time.Time {
	if s.Recorder == nil || s.joins.status == nil || s.joins.status.Clock == nil {
		return nil
	}
	var clock cilium.Clock
	if set := s.joins.status.Clock; set.Mode == "jiffies" {
		clock.Hz = set.Hertz
	}
	at := cilium.Instant{Wall: time.Unix(0, s.Recorder.WallNs), Monotonic: time.Duration(s.Recorder.MonotonicNs)}
	return func(t uint64) time.Time { return clock.Time(uint32(t), at) }
}
