package projections

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

type socketLBRow struct {
	Enabled    *bool   `json:"enabled"`
	Tracing    *bool   `json:"tracing"`            // as the status says, which some versions say wherever it is enabled
	Configured *bool   `json:"tracing_configured"` // as the configuration says
	Coverage   *string `json:"coverage"`           // Full, Hostns-only
	CgroupRoot *string `json:"cgroup_root"`        // which the agent is told to use
	// Null while they are not known.
	Programs []socketProgram `json:"programs"`
	Missing  []string        `json:"missing"` // hooks
}

type socketProgram struct {
	Attach   string  `json:"attach"`
	Family   *string `json:"family"` // null where it is for both
	Cgroup   *string `json:"cgroup"` // null where its path is not known
	CgroupID *uint64 `json:"cgroup_id"`
	AtRoot   bool    `json:"at_root"` // it sees the sockets of all pods
	Order    int     `json:"order"`   // among those of its hook, from 1
	Program  string  `json:"program"`
	ID       uint32  `json:"id"`
}

func (s *State) socketLBRow(w *waits) *socketLBRow {
	need(w, "host", "the programs at cgroups", 0, s.Host.Attachments != nil)
	f, c := s.features(), s.joins.config
	if f == nil && c == nil && s.Host.Attachments == nil {
		return nil
	}
	r := &socketLBRow{}
	if f != nil {
		coverage, _ := s.SocketLBCoverage()
		r.Enabled, r.Tracing, r.Coverage = &f.SocketLB.Enabled, &f.SocketLBTracing.Enabled, &coverage
	}
	if c != nil {
		r.CgroupRoot = unlessZero(c.CGroupRoot)
		r.Configured = cmp.Or(c.Socket.EnableSocketLBTracing, c.EnableSocketLBTracing)
	}
	if s.Host.Attachments != nil {
		r.Programs = s.programsAtCgroups()
	}
	if lb, ok := s.socketLB(); ok {
		r.Missing = append([]string{}, lb.missing...)
	}
	return r
}

// programsAtCgroups are all, also those of others than Cilium.
func (s *State) programsAtCgroups() []socketProgram {
	list := []socketProgram{}
	for i, a := range s.Host.Attachments.Attachments {
		if !strings.HasPrefix(a.Attach, "cgroup") {
			continue
		}
		list = append(list, socketProgram{
			Attach: a.Attach, Family: hookFamily(a.Attach), Cgroup: unlessZero(a.Cgroup), CgroupID: unlessZero(a.CgroupId), AtRoot: s.atRoot(a),
			Order: s.Host.orderAt(i), Program: a.Program, ID: a.ProgramId,
		})
	}
	return list
}

func hookFamily(attach string) *string {
	for _, p := range socketPrograms {
		if p.attach == attach {
			return unlessZero(p.family)
		}
	}
	switch {
	case strings.Contains(attach, "4"):
		return some("IPv4")
	case strings.Contains(attach, "6"):
		return some("IPv6")
	}
	return nil
}

func portRange(from, to int64) string { return fmt.Sprintf("%d-%d", from, to) }

// rulesRow is one save command's lines. Rules are in one of two places in the kernel, and a command shows one of them.
type rulesRow struct {
	Command       string  `json:"command"`
	Version       *string `json:"version"`
	Family        string  `json:"family"`
	Backend       *string `json:"backend"` // nft, legacy
	CiliumLines   int     `json:"cilium_lines"`
	KubeSvcLines  int     `json:"kube_svc_lines"`
	KubeLines     int     `json:"other_kube_lines"`
	UnreadableFor *string `json:"unreadable"` // why not all could be read
}

func (s *State) rulesRows(w *waits) []rulesRow {
	need(w, "host", "the rules of iptables", 0, len(s.Host.ruleSets) > 0)
	var list []rulesRow
	for _, command := range sortedNames(s.Host.ruleSets) {
		r := s.Host.ruleSets[command]
		list = append(list, rulesRow{command, unlessZero(r.Version), r.family(), unlessZero(r.backend()), r.cilium, r.kubeSvc, r.kubeOther, unlessZero(r.Unreadable)})
	}
	return list
}

// maxNeighbours is how many neighbours node.json lists of the kernel's, and of each map.
const maxNeighbours = 512

type neighbourRows struct {
	Kernel  []neighbourRow `json:"kernel"`
	Omitted int            `json:"omitted"`
}

type neighbourRow struct {
	Address string   `json:"address"`
	Device  string   `json:"device"`
	MAC     *string  `json:"mac"`
	State   string   `json:"state"`
	Flags   []string `json:"flags"`
}

// neighbourRows are the kernel's, those that Cilium or somebody else put there (extern_learn, managed) first.
func (s *State) neighbourRows(w *waits) *neighbourRows {
	need(w, "host", "the kernel's neighbours", 0, s.Host.Neighbours != nil)
	if s.Host.Neighbours == nil {
		return nil
	}
	all := slices.Clone(s.Host.Neighbours.Neighbours)
	learned := func(n *eventpb.Neighbour) int {
		if slices.Contains(n.Flags, "extern_learn") {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b *eventpb.Neighbour) int { return cmp.Compare(learned(a), learned(b)) })
	rows := &neighbourRows{[]neighbourRow{}, int(s.Host.Neighbours.Omitted)}
	for i, n := range all {
		if i == maxNeighbours {
			rows.Omitted += len(all) - i
			break
		}
		rows.Kernel = append(rows.Kernel, neighbourRow{n.Address, n.Device, unlessZero(n.Mac), n.State, append([]string{}, n.Flags...)})
	}
	return rows
}

// nodePortMACs are the clients of NodePorts as the datapath remembers their link addresses.
type nodePortMACs struct {
	Clients []nodePortMAC `json:"clients"`
	Omitted int           `json:"omitted"`
}

type nodePortMAC struct {
	Address string `json:"address"`
	MAC     string `json:"mac"`
}

// nodePortMACs is nil also where there is no such map.
func (s *State) nodePortMACs(w *waits) *nodePortMACs {
	var found []cilium.Neighbor
	known := false
	for _, kind := range []cilium.Kind{cilium.Neighbors4, cilium.Neighbors6} {
		m := s.mapOf(kind)
		if m == nil {
			continue
		}
		known = true
		for k, v := range m.Entries {
			if n, err := cilium.DecodeNeighbor([]byte(k), []byte(v.Bytes)); err == nil {
				found = append(found, n)
			}
		}
	}
	if need(w, "bpfmap", "the maps of nodeport neighbours", 0, known || len(s.Maps) > 0); !known {
		return nil
	}
	slices.SortFunc(found, func(a, b cilium.Neighbor) int { return a.Address.Compare(b.Address) })
	rows := &nodePortMACs{[]nodePortMAC{}, max(0, len(found)-maxNeighbours)}
	for _, n := range found[:min(len(found), maxNeighbours)] {
		rows.Clients = append(rows.Clients, nodePortMAC{n.Address.String(), n.MAC.String()})
	}
	return rows
}
