package projections

import (
	"net/netip"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// node.json: how this node balances load, and what it needs for that.
type nodeFile struct {
	Name               *string         `json:"name"`
	Zone               *string         `json:"zone"` // null also where it has none
	Replacement        *replacementRow `json:"kube_proxy_replacement"`
	SocketLB           *socketLBRow    `json:"socket_lb"`
	Routing            *routingRow     `json:"routing"`
	IPTables           []rulesRow      `json:"iptables"`
	Neighbours         *neighbourRows  `json:"neighbours"`
	NodePortNeighbours *nodePortMACs   `json:"nodeport_neighbours"`
	Health             *healthRow      `json:"healthz"`
}

// replacementRow is what `cilium-dbg status --verbose` prints as details of the replacement; names are its own.
type replacementRow struct {
	Mode                *string             `json:"mode"`
	Devices             []replacementDevice `json:"devices"`
	DirectRoutingDevice *string             `json:"direct_routing_device"`
	Forwarding          *string             `json:"forwarding"` // SNAT, DSR, Hybrid
	DSRDispatch         *string             `json:"dsr_dispatch"`
	BackendSelection    *string             `json:"backend_selection"` // Random, Maglev
	MaglevTableSize     *int64              `json:"maglev_table_size"`
	SessionAffinity     *bool               `json:"session_affinity"`
	GracefulTermination *bool               `json:"graceful_termination"` // null: the agent does not say, and has it
	NAT46Services       *bool               `json:"nat46x64_services"`
	NAT46Gateway        *bool               `json:"nat46x64_gateway"`
	NAT46Prefixes       []string            `json:"nat46x64_prefixes"`
	XDPAcceleration     *string             `json:"xdp_acceleration"`
	NodePort            *bool               `json:"node_port"`
	NodePortRange       *string             `json:"node_port_range"`
	LoadBalancer        *bool               `json:"load_balancer"`
	ExternalIPs         *bool               `json:"external_ips"`
	HostPort            *bool               `json:"host_port"`
	Annotations         []string            `json:"annotations"`
	NoBackendResponse   *string             `json:"no_backend_response"`
	ServiceProxyName    *string             `json:"service_proxy_name"` // null where the agent does not tell it
}

type replacementDevice struct {
	Name          string   `json:"name"`
	Addresses     []string `json:"addresses"`
	DirectRouting bool     `json:"direct_routing"`
}

type routingRow struct {
	Mode       *string `json:"mode"` // Native, Tunnel
	Tunnel     *string `json:"tunnel"`
	AutoDirect *bool   `json:"auto_direct_node_routes"`
}

type healthRow struct {
	Target   string  `json:"target"`
	HTTPCode int32   `json:"http_code"`
	Healthy  bool    `json:"healthy"`
	Error    *string `json:"error"`
}

const waitConfig = "the agent's configuration"

func nodeView(s *State, w *waits) any {
	o := s.thisNode()
	f := nodeFile{
		Name: need(w, "kube", "the node", o.GetName(), o != nil), Zone: unlessZero(o.GetNode().GetZone()),
		Replacement: s.replacementRow(w), SocketLB: s.socketLBRow(w), Routing: s.routingRow(),
		IPTables: s.rulesRows(w), Neighbours: s.neighbourRows(w), NodePortNeighbours: s.nodePortMACs(w),
	}
	if p := s.Probes[probeHealthz]; p != nil {
		f.Health = &healthRow{p.Target, p.HttpCode, healthy(p), unlessZero(p.Error)}
	}
	return f
}

func healthy(p *eventpb.ProbeResult) bool { return p.HttpCode == 200 }

func (s *State) replacementRow(w *waits) *replacementRow {
	mode, known := s.KubeProxyReplacement()
	need(w, "agent", waitStatus, 0, known)
	need(w, "agent", waitConfig, 0, s.joins.config != nil)
	if !known {
		return nil
	}
	kpr := &s.joins.status.Replacement
	r := &replacementRow{Mode: &mode, Devices: []replacementDevice{}, DirectRoutingDevice: unlessZero(kpr.DirectRoutingDevice)}
	for _, d := range kpr.Devices {
		r.Devices = append(r.Devices, replacementDevice{d.Name, sortedAddresses(d.IP), d.Name == kpr.DirectRoutingDevice})
	}
	if f := kpr.Features; f != nil {
		r.features(f)
	}
	if response, ok := s.NoBackendResponse(); ok {
		r.NoBackendResponse = &response
	}
	if c := s.joins.config; c != nil {
		r.ServiceProxyName = c.K8sServiceProxyName
	}
	return r
}

func (r *replacementRow) features(f *agentFeatures) {
	np := &f.NodePort
	r.Forwarding, r.BackendSelection, r.XDPAcceleration = unlessZero(np.Mode), unlessZero(np.Algorithm), unlessZero(np.Acceleration)
	if np.Mode != "SNAT" {
		r.DSRDispatch = unlessZero(np.DSRMode) // the agent names it always
	}
	r.MaglevTableSize = unlessZero(np.LutSize)
	r.NodePort, r.LoadBalancer = &np.Enabled, &np.Enabled
	if np.PortMax != 0 {
		r.NodePortRange = some(portRange(np.PortMin, np.PortMax))
	}
	r.SessionAffinity, r.ExternalIPs, r.HostPort = &f.SessionAffinity.Enabled, &f.ExternalIPs.Enabled, &f.HostPort.Enabled
	if f.Graceful != nil {
		r.GracefulTermination = &f.Graceful.Enabled
	}
	r.NAT46Services, r.NAT46Gateway = &f.NAT46.Service.Enabled, &f.NAT46.Gateway.Enabled
	r.NAT46Prefixes = append([]string{}, f.NAT46.Gateway.Prefixes...)
	r.Annotations = slices.Sorted(slices.Values(f.Annotations))
	if r.Annotations == nil {
		r.Annotations = []string{}
	}
}

func (s *State) routingRow() *routingRow {
	if s.joins.status == nil {
		return nil
	}
	r := &routingRow{Mode: unlessZero(s.joins.status.Routing.Mode), Tunnel: unlessZero(s.joins.status.Routing.Tunnel)}
	if c := s.joins.config; c != nil {
		r.AutoDirect = &c.EnableAutoDirectRouting
	}
	return r
}

// sortedAddresses are those that are addresses, ascending.
func sortedAddresses(texts []string) []string {
	list := addrsOf(texts)
	slices.SortFunc(list, netip.Addr.Compare)
	out := []string{}
	for _, a := range list {
		out = append(out, a.String())
	}
	return out
}
