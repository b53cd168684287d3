package timeline

import (
	"slices"
	"time"
)

// Kind is what a row tells of.
type Kind string

const (
	KindService   Kind = "service"   // the Service itself came, went
	KindPods      Kind = "pods"      // its pods: came, ready, told to end, gone
	KindEndpoint  Kind = "endpoint"  // its EndpointSlices
	KindAgent     Kind = "agent"     // what the agent wants in the maps, and that it wrote them
	KindSlot      Kind = "slot"      // the backends among which the datapath chooses
	KindBackend   Kind = "backend"   // the datapath's list of backends: state, gone
	KindUse       Kind = "use"       // first packet, first socket, first answer
	KindFailure   Kind = "failure"   // refused, dropped, no answer
	KindRecovered Kind = "recovered" // the first success after failures
	KindGap       Kind = "gap"       // a source did not see all
	KindMark      Kind = "mark"
	KindRecorder  Kind = "recorder" // started, stopped
)

// Kinds are all kinds, in the order of a fact's path.
var Kinds = []Kind{KindService, KindPods, KindEndpoint, KindAgent, KindSlot, KindBackend, KindUse, KindFailure, KindRecovered, KindGap, KindMark, KindRecorder}

// Row is one line of the table. Times are Unix nanoseconds.
type Row struct {
	TimeNs int64 // when it happened: by the source's own clock where it has one, else when it was seen
	SeenNs int64 // when the recorder saw it
	Own    bool  // TimeNs is the source's own
	// Services that it is about, as namespace/name; several where they share a backend.
	Services []string
	Kind     Kind
	Subject  string // a backend's address, a pod, a probe, a source
	Text     string
	Seq      uint64
	Cause    *Cause // nil where none is known
}

// Cause is an earlier row.
type Cause struct {
	Seq    uint64
	TimeNs int64
}

// Delay is the time since the cause.
func (r *Row) Delay() (time.Duration, bool) {
	if r.Cause == nil {
		return 0, false
	}
	return time.Duration(r.TimeNs - r.Cause.TimeNs), true
}

// Filter says which rows to give. The zero Filter gives all.
type Filter struct {
	Services []string // namespace/name; rows of no Service (gaps, marks) stay
	Kinds    []Kind
	// Bounds of a row's time, Unix nanoseconds; 0 is none.
	SinceNs, UntilNs int64
}

func (f *Filter) in(ns int64) bool {
	return ns >= f.SinceNs && (f.UntilNs == 0 || ns <= f.UntilNs)
}

func (f *Filter) service(name string) bool {
	return len(f.Services) == 0 || slices.Contains(f.Services, name)
}

func (f *Filter) row(r *Row) bool {
	if !f.in(r.TimeNs) || len(f.Kinds) > 0 && !slices.Contains(f.Kinds, r.Kind) {
		return false
	}
	return len(r.Services) == 0 && r.Kind.ofNoService() || slices.ContainsFunc(r.Services, f.service) ||
		len(f.Services) == 0
}

func (k Kind) ofNoService() bool { return k == KindGap || k == KindMark || k == KindRecorder }
