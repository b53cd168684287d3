//lint:file-ignore SA1019 The summary is deprecated, but Hubble prints it and nothing stands in its place.

package facts

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	flowpb "github.com/cilium/cilium/api/v1/flow"
)

// text is the flow as `hubble observe -o compact` prints it, less the time.
func (f *flow) text(*Book) string {
	p := f.get()
	srcPort, dstPort := flowPorts(p)
	src := hostText(p.GetIP().GetSource(), srcPort, p.GetSource(), p.GetSourceService(), p.GetSourceNames())
	dst := hostText(p.GetIP().GetDestination(), dstPort, p.GetDestination(), p.GetDestinationService(), p.GetDestinationNames())
	if p.GetIP() == nil {
		src, dst = p.GetEthernet().GetSource(), p.GetEthernet().GetDestination()
	}
	src += " " + identityText(p.GetSource())
	dst += " " + identityText(p.GetDestination())
	arrow := "->"
	switch {
	case p.GetIsReply() == nil:
		arrow = "<>"
	case p.GetIsReply().GetValue():
		src, dst, arrow = dst, src, "<-"
	}
	return fmt.Sprintf("%s %s %s %s %s (%s)", src, arrow, dst, FlowType(p), verdictText(p), summaryText(p))
}

func flowPorts(p *flowpb.Flow) (src, dst uint32) {
	l4 := p.GetL4()
	switch {
	case l4.GetTCP() != nil:
		return l4.GetTCP().GetSourcePort(), l4.GetTCP().GetDestinationPort()
	case l4.GetUDP() != nil:
		return l4.GetUDP().GetSourcePort(), l4.GetUDP().GetDestinationPort()
	case l4.GetSCTP() != nil:
		return l4.GetSCTP().GetSourcePort(), l4.GetSCTP().GetDestinationPort()
	}
	return 0, 0
}

func joinPort(host string, port uint32) string {
	return net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
}

func hostText(ip string, port uint32, end *flowpb.Endpoint, service *flowpb.Service, names []string) string {
	host, namespace := ip, end.GetNamespace()
	if service != nil {
		namespace = service.GetNamespace()
	}
	switch {
	case end.GetPodName() != "":
		host = path.Join(namespace, end.GetPodName())
	case service.GetName() != "":
		host = path.Join(namespace, service.GetName())
	case len(names) > 0:
		host = strings.Join(names, ",")
	}
	if port == 0 {
		return host
	}
	return joinPort(host, port)
}

// reserved are the identities that Cilium has names for.
var reserved = map[uint32]string{
	0: "unknown", 1: "host", 2: "world", 3: "unmanaged", 4: "health", 5: "init", 6: "remote-node", 7: "kube-apiserver", 8: "ingress",
	9: "world-ipv4", 10: "world-ipv6",
}

func identityText(end *flowpb.Endpoint) string {
	if name, ok := reserved[end.GetIdentity()]; ok {
		return "(" + name + ")"
	}
	return fmt.Sprintf("(ID:%d)", end.GetIdentity())
}

// The types of an event that a flow stands for, as in Cilium's monitor API.
const (
	typeDrop          = 1
	typeTrace         = 4
	typePolicyVerdict = 5
	typeCapture       = 3
	typeTraceSock     = 7
)

// tracePoints are the places at which the datapath reports a packet, by number.
var tracePoints = []string{
	"to-endpoint", "to-proxy", "to-host", "to-stack", "to-overlay", "from-endpoint", "from-proxy", "from-host",
	"from-stack", "from-overlay", "from-network", "to-network", "from-crypto", "to-crypto",
}

// sockPoints are the places at which socket load balancing reports a call, by number.
var sockPoints = []string{"SOCK_XLATE_POINT_UNKNOWN", "pre-xlate-fwd", "post-xlate-fwd", "pre-xlate-rev", "post-xlate-rev"}

// policyMatches are what a policy's verdict rests on, by number.
var policyMatches = []string{"none", "L3-Only", "L3-L4", "L4-Only", "all", "L3-Proto", "Proto-Only"}

// FlowType is where a flow was seen, as Hubble prints it: to-endpoint, pre-xlate-fwd, Policy denied, http-request …
func FlowType(p *flowpb.Flow) string {
	if l7 := p.GetL7(); l7 != nil {
		kind, protocol := strings.ToLower(l7.GetType().String()), "l7"
		switch {
		case l7.GetHttp() != nil:
			protocol = "http"
		case l7.GetDns() != nil:
			protocol, kind = "dns", kind+" "+l7.GetDns().GetObservationSource()
		}
		return protocol + "-" + kind
	}
	sub := int(p.GetEventType().GetSubType())
	switch p.GetEventType().GetType() {
	case typeTrace:
		return nth(tracePoints, sub, strconv.Itoa(sub))
	case typeDrop:
		return dropText(p)
	case typePolicyVerdict:
		return fmt.Sprintf("policy-verdict:%s %s", nth(policyMatches, int(p.GetPolicyMatchType()), "unknown"), p.GetTrafficDirection())
	case typeCapture:
		return p.GetDebugCapturePoint().String()
	case typeTraceSock:
		return nth(sockPoints, sub, sockPoints[0])
	}
	return "UNKNOWN"
}

func nth(list []string, i int, other string) string {
	if i < 0 || i >= len(list) {
		return other
	}
	return list[i]
}

// acronyms are the words of drop reasons that Hubble writes in capitals.
var acronyms = map[string]bool{"L2": true, "L3": true, "L4": true, "CT": true, "IP": true, "LB": true, "NAT": true, "TTL": true,
	"EDT": true, "FIB": true, "MTU": true, "DSR": true, "VLAN": true, "VNI": true, "VTEP": true, "SID": true, "TC": true}

// dropText spells the reason's name as a sentence: Policy denied.
func dropText(p *flowpb.Flow) string {
	words := strings.Split(p.GetDropReasonDesc().String(), "_")
	for i, w := range words {
		if !acronyms[w] {
			words[i] = strings.ToLower(w)
		}
	}
	text := strings.Join(words, " ")
	return strings.ToUpper(text[:1]) + text[1:]
}

func verdictText(p *flowpb.Flow) string {
	v := p.GetVerdict()
	if p.GetEventType().GetType() == typePolicyVerdict {
		switch v {
		case flowpb.Verdict_FORWARDED, flowpb.Verdict_REDIRECTED:
			return "ALLOWED"
		case flowpb.Verdict_DROPPED, flowpb.Verdict_ERROR:
			return "DENIED"
		case flowpb.Verdict_AUDIT:
			return "AUDITED"
		}
	}
	return v.String()
}

func summaryText(p *flowpb.Flow) string {
	text := p.GetSummary()
	if id := p.GetIpTraceId().GetTraceId(); id > 0 {
		text = fmt.Sprintf("IP Trace ID: %d; %s", id, text)
	}
	if auth := p.GetAuthType(); auth != flowpb.AuthType_DISABLED {
		text += "; Auth: " + auth.String()
	}
	return text
}
