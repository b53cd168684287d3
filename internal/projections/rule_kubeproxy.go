package projections

import (
	"fmt"
	"strings"
	"time"
)

// kubeProxyHold is longer than the rules are apart from each other while kube-proxy or Cilium writes them.
const kubeProxyHold = 10 * time.Second

// kubeProxyBeside: kube-proxy's rules of Services are there while Cilium replaces kube-proxy.
var kubeProxyBeside = rule{
	name: "kube-proxy-beside", level: LevelWarning, hold: kubeProxyHold, needs: []string{"host", "agent"},
	means: "each translates for itself, and neither knows the other's connections: those that kube-proxy has translated stay with the kernel's conntrack and break when its rules go, and what Cilium leaves alone these rules still take; take kube-proxy from the cluster, and its rules from the node while no connection needs them (kube-proxy --cleanup)",
	on:    []topic{topicHost, topicAgent},
	node: func(s *State) (found []problem) {
		return s.judgeRuleSets("kube-proxy-beside", func(r *ruleSet) string {
			if r.hidden() || r.kubeSvc == 0 {
				return ""
			}
			return fmt.Sprintf("%s has kube-proxy's rules of Services (KUBE-SVC) while Cilium replaces kube-proxy", r.Command)
		})
	},
}

// kubeProxyLeft: what kube-proxy made besides the rules of Services.
var kubeProxyLeft = rule{
	name: "kube-proxy-left", level: LevelWarning, hold: kubeProxyHold, needs: []string{"host", "agent"},
	means: "kube-proxy was here, or runs in IPVS mode: the device takes packets to Services' addresses for the node's own before Cilium's programs of other devices see them, and the chains may mark, accept or drop some; take it away (kube-proxy --cleanup)",
	on:    []topic{topicHost, topicAgent},
	node: func(s *State) (found []problem) {
		found = s.judgeRuleSets("kube-proxy-left", func(r *ruleSet) string {
			if r.hidden() || r.kubeSvc > 0 || len(r.kubeProxy) == 0 {
				return ""
			}
			return fmt.Sprintf("%s has kube-proxy's chains %s and no rules of Services", r.Command, strings.Join(r.kubeProxy, ", "))
		})
		const ipvs = "kube-ipvs0"
		for _, l := range s.Host.Links.GetLinks() {
			if l.Name == ipvs && s.kubeProxyReplaced() {
				found = append(found, problem{subject: ipvs, text: "the device kube-ipvs0 of kube-proxy's IPVS mode is there, while Cilium replaces kube-proxy"})
			}
		}
		return found
	},
}

// rulesHidden: rules are in the other of the kernel's two places, where the node's own iptables does not look.
var rulesHidden = rule{
	name: "rules-hidden", level: LevelWarning, hold: kubeProxyHold, needs: []string{"host", "agent"},
	means: "both places act on each packet, and `iptables-save` shows one of them: rules that seem to be gone still translate, accept or drop; list and flush them with the command named here",
	on:    []topic{topicHost, topicAgent},
	node: func(s *State) (found []problem) {
		return s.judgeRuleSets("rules-hidden", func(r *ruleSet) string {
			if !r.hidden() {
				return ""
			}
			plain := s.Host.ruleSets[strings.NewReplacer("-legacy-", "-", "-nft-", "-").Replace(r.Command)]
			var whose []string
			if r.ofKubeProxy() {
				whose = append(whose, "kube-proxy's")
			}
			if r.cilium > 0 && plain != nil && plain.cilium > 0 {
				whose = append(whose, "Cilium's, which the plain command has too")
			}
			if len(whose) == 0 {
				return ""
			}
			return fmt.Sprintf("%s has rules that the node's plain command does not show: %s", r.Command, strings.Join(whose, "; "))
		})
	},
}

// judgeRuleSets asks for what is wrong with each set of rules, empty for nothing. What was wrong with one that cannot be read now
// is kept.
func (s *State) judgeRuleSets(rule string, wrong func(*ruleSet) string) (found []problem) {
	if !s.kubeProxyReplaced() {
		return nil
	}
	for command, r := range s.Host.ruleSets {
		text := wrong(r)
		if text == "" && r.Unreadable != "" {
			text = s.book.text(rule, command)
		}
		if text != "" {
			found = append(found, problem{subject: command, text: text})
		}
	}
	return found
}
