package projections

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// absentFile is an endpoint of the Service's port that has no slot in the frontend.
type absentFile struct {
	Address    string       `json:"address"`
	Port       *uint16      `json:"port"` // null where the slice has no port of the Service's
	Why        string       `json:"why"`
	AgentState *string      `json:"agent_state"`
	Endpoint   endpointFile `json:"endpoint"`

	byPolicy, byTopology bool // as the Service asks for; topology is a policy
}

// absent lists the endpoints of the Service's port without a slot, by address. Endpoints of the other family are the
// matter of the Service's frontends of that family, unless it has none of this one.
func (j *sides) absent() []absentFile {
	rows := []absentFile{}
	if j.service == nil || j.port == nil {
		return rows
	}
	own := slices.ContainsFunc(j.ends, func(e end) bool { return e.family })
	var last *end
	for _, e := range j.offered() {
		if own && !e.family || e.port != nil && j.held[e.at] {
			continue
		}
		if last != nil && last.of == e.of && last.slice == e.slice && last.at == e.at {
			continue // two names of one port
		}
		last = e
		rows = append(rows, j.absentRow(e))
	}
	return rows
}

// offered are the ends of the Service's port: of each slice those of the port of its name, else one for each address, to say
// that there is none.
func (j *sides) offered() []*end {
	named := map[*eventpb.KubeObject]bool{}
	for i := range j.ends {
		if e := &j.ends[i]; j.named(e) {
			named[e.slice] = true
		}
	}
	var list []*end
	var last *end
	for i := range j.ends {
		e := &j.ends[i]
		if named[e.slice] {
			if j.named(e) {
				list = append(list, e)
			}
			continue
		}
		// Its ports are others: it is told of once.
		if last == nil || last.of != e.of || last.at.address.Addr() != e.at.address.Addr() {
			list = append(list, e)
		}
		last = e
	}
	return list
}

func (j *sides) absentRow(e *end) absentFile {
	row := absentFile{Address: e.at.address.Addr().String(), Endpoint: e.file()}
	if j.named(e) {
		port := e.at.address.Port()
		row.Port = &port
	}
	if w := j.agent[e.at]; w != nil && e.port != nil {
		row.AgentState = &w.state
	}
	row.Why, row.byPolicy = j.why(e)
	row.byTopology = row.Why == farNode || row.Why == farZone
	return row
}

// why tells why an endpoint has no slot, as far as it is known, and whether the Service asks for that.
func (j *sides) why(e *end) (why string, byPolicy bool) {
	switch {
	case j.row.RedirectTo != nil:
		return "the frontend is redirected to " + string(*j.row.RedirectTo), true
	case !e.family:
		return "other address family", false
	case e.port == nil:
		return noPort(e.slice.GetEndpointSlice()), false
	case !j.named(e):
		return j.otherPort(e), false
	case e.port.GetPort() == 0:
		return "port 0", false
	}
	w := j.agent[e.at]
	switch {
	case ready(e.of) && w != nil && w.state == cilium.BackendMaintenance.String():
		return "the agent has it in maintenance", false
	case ready(e.of) && w != nil:
		return "the agent has it and the map does not", false
	case !ready(e.of) && !e.of.GetTerminating():
		return "not ready", false
	case !ready(e.of) && e.of.Serving != nil && !*e.of.Serving:
		return "terminating, not serving", false
	case !ready(e.of) && j.serves:
		return "terminating, with others serving", false
	case w != nil:
		return "the agent has it and the map does not", false
	}
	return j.leftOut(e)
}

func noPort(slice *eventpb.EndpointSlice) string {
	switch {
	case slice.PortsNull:
		return "its slice names no port: null stands for all"
	case len(slice.Ports) == 0:
		return "its slice has no ports"
	}
	return "its slice's port has no number"
}

func (j *sides) otherPort(e *end) string {
	var have []string
	for _, p := range e.slice.GetEndpointSlice().Ports {
		have = append(have, fmt.Sprintf("%q/%s", p.Name, protoOf(p.Protocol)))
	}
	return fmt.Sprintf("port name does not match the Service's port: its slice has %s, the Service %q/%s", strings.Join(have, ", "), j.port.Name, protoOf(j.port.Protocol))
}

// Why topology leaves an endpoint out.
const (
	farNode = "other node, and the Service prefers this one"
	farZone = "hinted for another zone"
)

// leftOut tells why the agent has not got an endpoint that can serve.
func (j *sides) leftOut(e *end) (string, bool) {
	c := j.choice
	switch {
	case c.far(e.of):
		return "other node, and the traffic policy is Local", true
	case c.preferNode && e.of.NodeName != c.node && j.here:
		return farNode, true
	case c.preferZone && len(e.of.HintZones) > 0 && !slices.Contains(e.of.HintZones, c.zone) && j.zoned && !j.unhinted: // Cilium heeds hints only where all have some
		return farZone, true
	case j.hasRow:
		return "the agent has not got it", false
	case j.s.Agent["frontend"] != nil:
		return "the agent has no such frontend", false
	}
	return "unknown", false
}
