package projections

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

func (st *story) rules(command, version, unreadable string, lines ...string) {
	st.then("host", &eventpb.HostState{RuleSets: []*eventpb.RuleSet{{Command: command, Version: version, Lines: lines, Unreadable: unreadable}}})
}

const (
	nftVersion    = "v1.8.9 (nf_tables)"
	legacyVersion = "v1.8.9 (legacy)"
	serviceRule   = "-A KUBE-SERVICES -d 10.43.0.1/32 -p tcp -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y"
)

func TestRulesOfKubeProxy(t *testing.T) {
	kubelet := []string{"*mangle", ":KUBE-KUBELET-CANARY - [0:0]", ":KUBE-IPTABLES-HINT - [0:0]", "COMMIT", "*filter", ":KUBE-FIREWALL - [0:0]", "-A INPUT -j KUBE-FIREWALL", "COMMIT"}
	for _, c := range []struct {
		name    string
		command string
		version string
		lines   []string
		want    []string
	}{
		{"the kubelet's alone", "iptables-save", nftVersion, kubelet, nil},
		{"Services", "ip6tables-save", nftVersion, append(kubelet, "*nat", serviceRule), []string{"kube-proxy-beside ip6tables-save"}},
		{"chains alone", "iptables-save", nftVersion, append(kubelet, "*nat", ":KUBE-SERVICES - [0:0]", ":KUBE-NODEPORTS - [0:0]"), []string{"kube-proxy-left iptables-save"}},
		{"Services in the legacy tables", "iptables-legacy-save", legacyVersion, []string{"*nat", serviceRule}, []string{"rules-hidden iptables-legacy-save"}},
		{"chains in the legacy tables", "iptables-legacy-save", legacyVersion, []string{"*nat", ":KUBE-SERVICES - [0:0]"}, []string{"rules-hidden iptables-legacy-save"}},
		{"the kubelet's in the legacy tables", "iptables-legacy-save", legacyVersion, kubelet, nil},
		{"the plain command is the legacy one", "ip6tables-nft-save", nftVersion, []string{"*nat", serviceRule}, []string{"rules-hidden ip6tables-nft-save"}},
		{"Cilium's in both", "iptables-legacy-save", legacyVersion, []string{"*nat", ":CILIUM_PRE_nat - [0:0]"}, []string{"rules-hidden iptables-legacy-save"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := realNode(t)
			st.rules(c.command, c.version, "", c.lines...)
			st.pass(9)
			st.quiet("while they are being written")
			st.pass(2)
			st.wantOpen("after the bound", c.want...)
			validate(t, "node.json", []byte(st.text("node.json")))
			// A command that fails says nothing of the rules.
			st.rules(c.command, c.version, "iptables-save: no end after 10s")
			st.pass(1)
			st.wantOpen("while they cannot be read", c.want...)
			st.replacement("False")
			st.pass(5)
			st.wantOpen("when kube-proxy is not replaced", "replacement-off kube-proxy-replacement")
		})
	}
}

func TestRulesOfKubeProxyGo(t *testing.T) {
	st := realNode(t)
	st.rules("iptables-save", nftVersion, "", "*nat", serviceRule)
	st.pass(11)
	st.wantOpen("beside Cilium", "kube-proxy-beside iptables-save")
	st.rules("iptables-save", nftVersion, "", "*nat")
	st.quiet("when they are gone")
}

func TestBackendOfIPTables(t *testing.T) {
	for _, c := range []struct{ command, version, want string }{
		{"iptables-save", nftVersion, "nft"}, {"iptables-save", legacyVersion, "legacy"}, {"iptables-save", "v1.6.1", "legacy"}, {"iptables-save", "", ""},
		{"ip6tables-legacy-save", legacyVersion, "legacy"}, {"iptables-nft-save", "", "nft"},
	} {
		if got := readRuleSet(&eventpb.RuleSet{Command: c.command, Version: c.version}).backend(); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.command, c.version, got, c.want)
		}
	}
}
