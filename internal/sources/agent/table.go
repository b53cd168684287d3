package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// row is one line of the agent's change stream and of a query of its tables. A line without object and revision
// keeps the connection alive.
type row struct {
	Object   json.RawMessage `json:"obj"`
	Revision uint64          `json:"rev"`
	Deleted  bool            `json:"deleted"`
	Error    string          `json:"err"`
}

func (r *row) empty() bool { return r.Revision == 0 }

// table is what was last seen of one of the load balancer's tables.
type table struct {
	kind string // frontend or backend
	name string // the agent's name of it
	rows map[string]tableRow
	top  uint64 // highest revision of the snapshot
}

type tableRow struct {
	revision uint64
	object   *eventpb.AgentObject
}

func newTables() []*table {
	return []*table{
		{kind: "frontend", name: "frontends"},
		{kind: "backend", name: "backends"},
	}
}

// snapshot takes all rows of the table.
func (t *table) snapshot(rows []row) (*eventpb.AgentObjects, error) {
	t.rows = make(map[string]tableRow, len(rows))
	for i := range rows {
		o, err := t.read(&rows[i])
		if err != nil {
			return nil, err
		}
		t.rows[o.Key] = tableRow{rows[i].Revision, o}
		t.top = max(t.top, rows[i].Revision)
	}
	all := &eventpb.AgentObjects{Kind: t.kind, Complete: true}
	for _, key := range slices.Sorted(maps.Keys(t.rows)) {
		all.Objects = append(all.Objects, t.rows[key].object)
	}
	return all, nil
}

// apply takes one change and returns nil when it says nothing new. The stream begins with every row there is, so
// that what the snapshot had comes again.
func (t *table) apply(r *row) (*eventpb.AgentObject, error) {
	o, err := t.read(r)
	if err != nil {
		return nil, err
	}
	old, known := t.rows[o.Key]
	switch {
	case known && r.Revision <= old.revision, !known && r.Revision <= t.top:
		return nil, nil
	case r.Deleted && !known:
		return nil, nil
	case r.Deleted:
		delete(t.rows, o.Key)
		return &eventpb.AgentObject{Key: o.Key, Deleted: true}, nil
	}
	t.rows[o.Key] = tableRow{r.Revision, o}
	if known && same(old.object, o) {
		return nil, nil
	}
	return o, nil
}

func same(a, b *eventpb.AgentObject) bool {
	return bytes.Equal(a.Json, b.Json) && a.Reconciled == b.Reconciled && a.ReconciledNs == b.ReconciledNs
}

// read makes an object of a row: the status of the reconciler stands beside it, its error inside.
func (t *table) read(r *row) (*eventpb.AgentObject, error) {
	o, err := decode(r.Object)
	if err != nil {
		return nil, fmt.Errorf("decode row of %s: %w", t.name, err)
	}
	out := &eventpb.AgentObject{Key: rowKey(o)}
	if out.Key == "" {
		return nil, fmt.Errorf("decode row of %s: no address", t.name)
	}
	if status, ok := o["Status"].(object); ok {
		out.Reconciled, _ = status["kind"].(string)
		out.ReconciledNs = unixNano(status["updated-at"])
		delete(o, "Status")
		if text, ok := status["error"].(string); ok {
			o["Status"] = object{"error": text}
		}
	}
	pruneFrontend(o)
	out.Json, err = encode(o)
	return out, err
}

// rowKey is a frontend's address (10.43.0.10:53/UDP), and a backend's address, service and source: one address
// may be the backend of several services, and come from several sources.
func rowKey(o object) string {
	var parts []string
	for _, name := range []string{"Address", "ServiceName", "Source"} {
		if text, ok := o[name].(string); ok && text != "" {
			parts = append(parts, text)
		}
	}
	if _, frontend := o["ServicePort"]; frontend && len(parts) > 0 {
		return parts[0]
	}
	return strings.Join(parts, " ")
}

// pruneFrontend cuts a frontend's backends down to what it makes of them; whole, they are rows of their own.
func pruneFrontend(o object) {
	delete(o, "HealthCheckBackends")
	backends, _ := o["Backends"].([]any)
	for _, b := range backends {
		if b, ok := b.(object); ok {
			maps.DeleteFunc(b, func(name string, _ any) bool {
				return !slices.Contains([]string{"Address", "ServiceName", "State", "Unhealthy", "Weight"}, name)
			})
		}
	}
}

// unixNano is 0 for what is no time, and for Go's zero time.
func unixNano(v any) int64 {
	text, _ := v.(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 1970 {
		return 0
	}
	return at.UnixNano()
}
