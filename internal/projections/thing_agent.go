package projections

import (
	"encoding/json"
	"strconv"
	"strings"
)

func (a Agent) things(add adder) {
	for key, o := range a["frontend"] {
		f, ok := a.frontendRow(key)
		if !ok {
			continue
		}
		add("agent frontend", key, Field{"service", f.ServiceName}, Field{"type", f.Type}, Field{"id", known(strconv.Itoa(f.ID), "0")},
			Field{"backends", strings.Join(f.addresses(), ", ")}, Field{"reconciled", o.Reconciled})
	}
	for key := range a["backend"] {
		if b, ok := a.backendRow(key); ok {
			add("agent backend", key, Field{"service", b.ServiceName}, Field{"state", agentBackendState(b.State)}, Field{"unhealthy", known(strconv.FormatBool(b.Unhealthy), "false")})
		}
	}
	for key := range a["endpoint"] {
		name, index, ok := a.device(key)
		if ok {
			add("agent endpoint", key, Field{"device", name}, Field{"ifindex", strconv.Itoa(int(index))})
		}
	}
}

// frontendRow is a row of the agent's table of frontends.
type frontendRow struct {
	Address     string
	Backends    []backendRow
	ID          int
	ServiceName string
	Type        string
	Status      struct{ Error string } // of the reconciler
	RedirectTo  *agentName             // the Service whose backends it has instead of its own's

	reconciled   string // Pending, Done, Error
	reconciledNs int64
}

// agentName is a Service's name, namespace/name. Some versions of the agent write it as an object.
type agentName string

// UnmarshalJSON keeps what it does not know as it is.
func (n *agentName) UnmarshalJSON(b []byte) error {
	var o struct{ Namespace, Name string }
	switch {
	case json.Unmarshal(b, (*string)(n)) == nil:
	case json.Unmarshal(b, &o) == nil && o.Name != "":
		*n = agentName(Name(o).String())
	default:
		*n = agentName(b)
	}
	return nil
}

// backendRow is a row of the agent's table of backends, or one inside a frontend's.
type backendRow struct {
	Address     string // ip:port/PROTO
	ServiceName string
	State       int
	Unhealthy   bool
}

func (a Agent) frontendRow(key string) (f frontendRow, ok bool) {
	if ok = a.decode("frontend", key, &f) && f.Address != ""; ok {
		o := a["frontend"][key]
		f.reconciled, f.reconciledNs = o.Reconciled, o.ReconciledNs
	}
	return f, ok
}

func (a Agent) backendRow(key string) (b backendRow, ok bool) {
	ok = a.decode("backend", key, &b) && b.Address != ""
	return b, ok
}

// addresses are those of the row's backends, with the state of those that are not active.
func (f frontendRow) addresses() []string {
	var list []string
	for _, b := range f.Backends {
		text := b.Address
		if b.State != 0 {
			text += " (" + agentBackendState(b.State) + ")"
		}
		list = append(list, text)
	}
	return list
}

// agentBackendState names the agent's own numbers, which are those of the maps.
func agentBackendState(n int) string {
	if n < 0 || n > 255 {
		return strconv.Itoa(n)
	}
	return backendStateName(uint8(n))
}
