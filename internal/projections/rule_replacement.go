package projections

import "time"

// replacementOff: the agent replaces kube-proxy for pods' ClusterIPs alone.
var replacementOff = rule{
	name: "replacement-off", level: LevelInfo, hold: 2 * time.Second, needs: []string{"agent"},
	means: "connections to NodePorts, external and load balancer addresses and hostPorts are kube-proxy's and the portmap plugin's, which these files do not show; without those nobody serves them",
	on:    []topic{topicAgent},
	node: func(s *State) []problem {
		f := s.features()
		if mode, _ := s.KubeProxyReplacement(); mode != "False" && mode != "Disabled" || f == nil {
			return nil
		}
		text := "kube-proxy-replacement is off: Cilium serves ClusterIPs, of pods alone"
		if f.SocketLB.Enabled {
			text = "kube-proxy-replacement is off: Cilium serves ClusterIPs alone, also of the node's own processes (socket load balancing is on)"
		}
		return []problem{{subject: "kube-proxy-replacement", text: text}}
	},
}

// socketLBCoverage: sockets of pods are not translated where they connect.
var socketLBCoverage = rule{
	name: "socket-lb-coverage", level: LevelWarning, hold: 2 * time.Second, needs: []string{"agent"},
	means: "pods' connections are translated packet by packet at the pod's device, each with a conntrack entry, and apps see the Service's address as their peer; as meant where a service mesh or sandbox needs it, else unset bpf-lb-sock-hostns-only",
	on:    []topic{topicAgent},
	node: func(s *State) []problem {
		f := s.features()
		if !s.kubeProxyReplaced() || f == nil {
			return nil
		}
		switch {
		case !f.SocketLB.Enabled:
			return []problem{{subject: "socket LB", text: "socket load balancing is off, while kube-proxy is replaced"}}
		case f.HostnsOnly:
			return []problem{{subject: "socket LB", text: "socket load balancing covers the node's own network namespace alone (Hostns-only), while kube-proxy is replaced"}}
		}
		return nil
	},
}
