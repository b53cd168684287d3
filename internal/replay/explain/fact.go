package explain

import (
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// fact names one thing that a statement rests on. The event that set it last is the statement's witness.
type fact struct{ kind, name, key string }

// The kinds of facts.
const (
	object    = "object"    // a Kubernetes object: its kind, namespace/name
	listOf    = "list"      // a whole list of Kubernetes objects: their kind
	agentRow  = "agent"     // an object of the agent: its kind, its key
	agentList = "agentlist" // a whole list of the agent: its kind
	entry     = "entry"     // a map's entry: the map, the key's bytes
	wholeMap  = "map"       // a whole map: its name
	mapRead   = "read"      // a map, in part or as a whole: its name
	topic     = "topic"     // a topic of the node: rules, attachments, listeners
	sockets   = "sockets"   // a pod's sockets: namespace/name
	logPeer   = "log"       // a line of a pod's log with a peer's address: namespace/name, the address
	probe     = "probe"     // a probe's answer: its name
)

func objectOf(k eventpb.Kind, o *eventpb.KubeObject) fact {
	return fact{object, k.String(), o.Namespace + "/" + o.Name}
}

func entryOf[T any](e projections.Entry[T]) fact { return fact{entry, e.Map, e.Key} }

// witnesses finds, for the facts that are asked for, the last event that set each.
type witnesses struct {
	seq  map[fact]uint64
	maps map[string]bool // with entries that are asked for
}

func newWitnesses(wanted []fact) *witnesses {
	w := &witnesses{map[fact]uint64{}, map[string]bool{}}
	for _, f := range wanted {
		w.seq[f] = 0
		if f.kind == entry {
			w.maps[f.name] = true
		}
	}
	return w
}

func (w *witnesses) set(seq uint64, f fact) {
	if _, wanted := w.seq[f]; wanted {
		w.seq[f] = seq
	}
}

// see takes one event, in the order of the tape.
func (w *witnesses) see(seq uint64, e *eventpb.Event) {
	switch b := e.Body.(type) {
	case *eventpb.Event_Kube:
		for _, o := range b.Kube.Objects {
			w.set(seq, objectOf(b.Kube.Kind, o))
		}
		if b.Kube.Complete && b.Kube.Part >= b.Kube.Parts {
			w.set(seq, fact{listOf, b.Kube.Kind.String(), ""})
		}
	case *eventpb.Event_Agent:
		for _, o := range b.Agent.Objects {
			w.set(seq, fact{agentRow, b.Agent.Kind, o.Key})
		}
		if b.Agent.Complete {
			w.set(seq, fact{agentList, b.Agent.Kind, ""})
		}
	case *eventpb.Event_Maps:
		for _, d := range b.Maps.Maps {
			w.delta(seq, d)
		}
	case *eventpb.Event_Host:
		w.host(seq, b.Host)
	case *eventpb.Event_Log:
		for _, l := range b.Log.Lines {
			if peer, ok := projections.PeerIn(l.Text); ok {
				w.set(seq, fact{logPeer, b.Log.Namespace + "/" + b.Log.Pod, peer})
			}
		}
	case *eventpb.Event_Probe:
		w.set(seq, fact{probe, b.Probe.Name, ""})
	}
}

func (w *witnesses) delta(seq uint64, d *eventpb.MapDelta) {
	w.set(seq, fact{mapRead, d.Map, ""})
	if d.Absent || d.Complete && d.Part >= d.Parts {
		w.set(seq, fact{wholeMap, d.Map, ""})
	}
	if !w.maps[d.Map] || d.KeySize == 0 {
		return
	}
	k, size := int(d.KeySize), int(d.KeySize)+int(d.ValueSize)
	for b := d.Upserts; len(b) >= size; b = b[size:] {
		w.set(seq, fact{entry, d.Map, string(b[:k])})
	}
	for b := d.Deletes; len(b) >= k; b = b[k:] {
		w.set(seq, fact{entry, d.Map, string(b[:k])})
	}
}

func (w *witnesses) host(seq uint64, h *eventpb.HostState) {
	for _, r := range h.RuleSets {
		w.set(seq, fact{topic, "rules", r.Command})
	}
	if h.Attachments != nil {
		w.set(seq, fact{topic, "attachments", ""})
	}
	if h.Listeners != nil {
		w.set(seq, fact{topic, "listeners", ""})
	}
	for _, p := range h.PodSockets {
		w.set(seq, fact{sockets, strings.Join([]string{p.Namespace, p.Pod}, "/"), ""})
	}
}

var (
	theRules       = fact{topic, "rules", "iptables-save"}
	theAttachments = fact{topic, "attachments", ""}
	theListeners   = fact{topic, "listeners", ""}
	theStatus      = fact{agentRow, "status", ""}
	theConfig      = fact{agentRow, "config", ""}
)
