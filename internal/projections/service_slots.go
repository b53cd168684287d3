package projections

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// slotFile is one slot of a frontend and what the three sides say of its backend. Slot 0 is the frontend itself.
type slotFile struct {
	Slot      uint16 `json:"slot"`
	Use       string `json:"use"` // new_connections, quarantined: behind those; left_over: behind what slot 0 counts; unknown without it
	BackendID uint32 `json:"backend_id"`
	// In the backends map; null, with missing, when the id has no entry there.
	Address        *string        `json:"address"`
	Port           *uint16        `json:"port"`
	Protocol       *string        `json:"protocol"`
	State          *string        `json:"state"`
	Zone           *uint8         `json:"zone_id"` // the agent's number of its zone
	Missing        bool           `json:"missing"`
	AgentState     *string        `json:"agent_state"` // null where the agent's row has no such backend
	AgentUnhealthy *bool          `json:"agent_unhealthy"`
	Endpoints      []endpointFile `json:"endpoints"`
}

// endpointFile is an endpoint as an EndpointSlice has it; conditions are null where the API leaves them out.
type endpointFile struct {
	Slice       string   `json:"slice"`
	PortName    *string  `json:"port_name"`
	Pod         *string  `json:"pod"`    // namespace/name
	Target      *string  `json:"target"` // kind and name, where it is no pod
	Node        *string  `json:"node"`
	Ready       *bool    `json:"ready"`
	Serving     *bool    `json:"serving"`
	Terminating *bool    `json:"terminating"`
	Zone        *string  `json:"zone"`
	HintZones   []string `json:"hint_zones"`
	HintNodes   []string `json:"hint_nodes"`
}

func (j *sides) slots() []slotFile {
	list := make([]slotFile, 0, len(j.f.Slots))
	for _, slot := range slices.Sorted(maps.Keys(j.f.Slots)) {
		list = append(list, j.slot(slot, j.f.Slots[slot]))
	}
	return list
}

func (j *sides) slot(slot uint16, id uint32) slotFile {
	row := slotFile{Slot: slot, Use: j.f.use(slot), BackendID: id, Endpoints: []endpointFile{}}
	b, ok := j.s.LB.backends[backendKey{j.k.v6(), id}]
	if !ok {
		row.Missing = true
		return row
	}
	address, port, proto, state := b.Address.Addr().String(), b.Address.Port(), b.Proto.String(), b.State.String()
	row.Address, row.Port, row.Protocol, row.State = &address, &port, &proto, &state
	if b.Zone != 0 {
		row.Zone = &b.Zone
	}
	at := j.key(b.Address, b.Proto)
	if w := j.agent[at]; w != nil {
		row.AgentState, row.AgentUnhealthy = &w.state, &w.unhealthy
	}
	for _, e := range j.at[at] {
		row.Endpoints = append(row.Endpoints, e.file())
	}
	return row
}

// use is what the datapath does with a slot: it chooses of the first ones, and keeps those behind for connections that have
// them already.
func (f *Frontend) use(slot uint16) string {
	switch {
	case !f.Head:
		return "unknown"
	case slot <= f.Count:
		return "new_connections"
	case int(slot) <= int(f.Count)+int(f.QCount):
		return "quarantined"
	}
	return "left_over"
}

func (e *end) file() endpointFile {
	o := e.of
	f := endpointFile{Slice: e.slice.Name, Node: some(o.NodeName), Ready: o.Ready, Serving: o.Serving, Terminating: o.Terminating, Zone: some(o.Zone),
		HintZones: list(o.HintZones), HintNodes: list(o.HintNodes)}
	if e.port != nil {
		f.PortName = &e.port.Name
	}
	switch o.TargetKind {
	case "":
	case "Pod":
		f.Pod = some(Name{cmp.Or(o.TargetNamespace, e.slice.Namespace), o.TargetName}.String())
	default:
		f.Target = some(o.TargetKind + " " + o.TargetName)
	}
	return f
}

// some is null for what the API leaves out.
func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// list is never null.
func list(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}

// agrees says that map, agent and API say the same of a slot, and that it is in use.
func (j *sides) agrees(r *slotFile) bool {
	switch {
	case r.Missing || r.Use != "new_connections" || *r.State != cilium.BackendActive.String():
		return false
	case j.hasRow && (r.AgentState == nil || *r.AgentState != *r.State || *r.AgentUnhealthy):
		return false
	case j.s.Agent["frontend"] != nil && !j.hasRow:
		return false
	}
	if j.service == nil || j.f.Flags&cilium.FlagLocalRedirect != 0 {
		return true // its backends are no endpoints of a Service
	}
	return len(r.Endpoints) > 0 && !slices.ContainsFunc(r.Endpoints, func(e endpointFile) bool {
		return e.Ready != nil && !*e.Ready || e.Terminating != nil && *e.Terminating
	})
}

// brief leaves out what agrees, and endpoints that have no slot by their Service's own policy.
func (row *frontendFile) brief(j *sides) {
	have := len(row.Slots) + len(row.WithoutSlot)
	row.Slots = slices.DeleteFunc(row.Slots, func(r slotFile) bool { return j.agrees(&r) })
	row.WithoutSlot = slices.DeleteFunc(row.WithoutSlot, func(r absentFile) bool { return r.byPolicy })
	row.Omitted = have - len(row.Slots) - len(row.WithoutSlot)
}

func ready(e *eventpb.Endpoint) bool { return e.Ready == nil || *e.Ready }
