package projections

import (
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// ruleSet is what one save command printed, looked through once: kube-proxy leaves many thousand lines.
type ruleSet struct {
	*eventpb.RuleSet
	cilium, kubeSvc, kubeOther int      // lines
	kubeProxy                  []string // chains that kube-proxy alone makes, less those of Services, ascending
}

// kubeProxyChains are those of kube-proxy's modes iptables and ipvs. KUBE-FIREWALL, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT,
// KUBE-MARK-DROP, and in older versions KUBE-MARK-MASQ and KUBE-POSTROUTING are the kubelet's, and stay.
var kubeProxyChains = []string{
	"KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD", "KUBE-PROXY-CANARY", "KUBE-PROXY-FIREWALL",
	"KUBE-NODE-PORT", "KUBE-LOAD-BALANCER", "KUBE-SOURCE-RANGES-FIREWALL", "KUBE-IPVS-FILTER", "KUBE-IPVS-OUT-FILTER",
}

func readRuleSet(r *eventpb.RuleSet) *ruleSet {
	set := &ruleSet{RuleSet: r}
	for _, l := range r.Lines {
		if strings.Contains(l, "CILIUM") {
			set.cilium++
		}
		switch {
		case strings.Contains(l, "KUBE-SVC"):
			set.kubeSvc++
		case strings.Contains(l, "KUBE-"):
			set.kubeOther++
			if name, _, _ := strings.Cut(strings.TrimPrefix(l, ":"), " "); slices.Contains(kubeProxyChains, name) {
				set.kubeProxy = appendNew(set.kubeProxy, name)
			}
		}
	}
	slices.Sort(set.kubeProxy)
	return set
}

// family of the addresses that the rules are about.
func (r *ruleSet) family() string {
	if strings.HasPrefix(r.Command, "ip6") {
		return "IPv6"
	}
	return "IPv4"
}

// backend is nft or legacy, where the rules are in the kernel; empty while the command's version is not known.
func (r *ruleSet) backend() string {
	switch {
	case strings.Contains(r.Command, "nft"), !r.hidden() && strings.Contains(r.Version, "nf_tables"):
		return "nft"
	case r.hidden(), r.Version != "":
		return "legacy"
	}
	return ""
}

// hidden says that they are in the backend which the node's plain command does not show.
func (r *ruleSet) hidden() bool {
	return strings.Contains(r.Command, "-legacy-") || strings.Contains(r.Command, "-nft-")
}

// ofKubeProxy says that kube-proxy made some of them.
func (r *ruleSet) ofKubeProxy() bool { return r.kubeSvc > 0 || len(r.kubeProxy) > 0 }
