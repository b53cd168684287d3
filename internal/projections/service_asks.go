package projections

import (
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// asksFile is what a Service asks for beyond the default; each null where it asks nothing.
type asksFile struct {
	SessionAffinity     *int32   `json:"session_affinity_seconds"`
	ExternalPolicy      *string  `json:"external_traffic_policy"`
	InternalPolicy      *string  `json:"internal_traffic_policy"`
	Distribution        *string  `json:"traffic_distribution"`
	SourceRanges        []string `json:"source_ranges"`
	HealthCheckNodePort *int32   `json:"health_check_node_port"`
	PublishNotReady     *bool    `json:"publish_not_ready_addresses"`
}

// asksOf is nil where a Service asks for nothing but the default.
func asksOf(o *eventpb.KubeObject) *asksFile {
	svc := o.GetService()
	a := asksFile{Distribution: some(topologyOf(o)), SourceRanges: svc.GetSourceRanges()}
	if svc.GetSessionAffinity() == "ClientIP" {
		a.SessionAffinity = &svc.AffinityTimeoutSeconds
	}
	if p := svc.GetExternalTrafficPolicy(); p != "Cluster" {
		a.ExternalPolicy = some(p)
	}
	if p := svc.GetInternalTrafficPolicy(); p != "Cluster" {
		a.InternalPolicy = some(p)
	}
	if svc.GetHealthCheckNodePort() != 0 {
		a.HealthCheckNodePort = &svc.HealthCheckNodePort
	}
	if svc.GetPublishNotReady() {
		a.PublishNotReady = &svc.PublishNotReady
	}
	if a.SessionAffinity == nil && a.ExternalPolicy == nil && a.InternalPolicy == nil && a.Distribution == nil && len(a.SourceRanges) == 0 &&
		a.HealthCheckNodePort == nil && a.PublishNotReady == nil {
		return nil
	}
	return &a
}

// topologyOf is what a Service asks about which of its endpoints are preferred; empty for nothing. The annotations are those of
// before there was a field.
func topologyOf(o *eventpb.KubeObject) string {
	if d := o.GetService().GetTrafficDistribution(); d != "" {
		return d
	}
	if mode := topologyMode(o.GetAnnotations()); mode != "" && mode != "disabled" && mode != "Disabled" {
		return mode
	}
	return ""
}

// topologyFile is what came of a Service's wish for near endpoints.
type topologyFile struct {
	Asks    string  `json:"asks"` // PreferSameZone, PreferClose, PreferSameNode; auto and others by annotation
	LeftOut int     `json:"left_out"`
	Why     *string `json:"why"` // none is left out
}

// topology is nil for a Service that asks nothing. Cilium's rules are in pkg/loadbalancer/writer (DefaultSelectBackends); its option
// enable-service-topology is off by default, and the agent does not tell of it.
func (j *sides) topology(absent []absentFile) *topologyFile {
	asks := ""
	if j.service != nil {
		asks = topologyOf(j.service)
	}
	if asks == "" {
		return nil
	}
	t := &topologyFile{Asks: asks}
	for _, a := range absent {
		if a.byTopology {
			t.LeftOut++
		}
	}
	if t.LeftOut == 0 {
		t.Why = some(j.whyAllNear(asks))
	}
	return t
}

func (j *sides) whyAllNear(asks string) string {
	node, zone := j.choice.node, j.choice.zone
	switch {
	case j.service.GetService().GetInternalTrafficPolicy() == "Local":
		return "the internal traffic policy is Local, which Cilium follows alone"
	case asks == "PreferSameNode" && !j.here:
		return "no ready endpoint is on this node"
	case asks == "PreferSameNode":
	case zone == "":
		return "this node has no zone"
	case j.unhinted:
		return "a ready endpoint has no hint"
	case !j.zoned:
		return "no ready endpoint is hinted for this node's zone"
	}
	far := func(e end) bool {
		if asks == "PreferSameNode" {
			return e.of.NodeName != node
		}
		return !slices.Contains(e.of.HintZones, zone)
	}
	if slices.ContainsFunc(j.ends, func(e end) bool { return e.family && j.named(&e) && ready(e.of) && far(e) && j.held[e.at] }) {
		return "the agent does not heed it: its option enable-service-topology is off, or it is late"
	}
	return "all ready endpoints are near"
}
