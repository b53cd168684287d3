package projections

import (
	"fmt"
	"time"
)

// healthServer: the health server of kube-proxy replacement, where it is asked.
var healthServer = rule{
	name: "health-server", level: LevelError, hold: 5 * time.Second, needs: []string{"probe", "agent"},
	means: "load balancers that ask it take this node out of service; 503 is the agent saying that it is not well or that the node is being deleted, and no answer that it does not run, or that another process has the port: see `cilium-dbg status`",
	on:    []topic{topicProbes, topicAgent},
	node: func(s *State) []problem {
		p := s.Probes[probeHealthz]
		switch {
		case p == nil || healthy(p) || !s.kubeProxyReplaced():
			return nil
		case p.HttpCode == 0:
			return []problem{{subject: p.Target, text: fmt.Sprintf("the health server of kube-proxy replacement does not answer at %s", p.Target)}}
		}
		return []problem{{subject: p.Target, text: fmt.Sprintf("the health server of kube-proxy replacement answers with %d at %s", p.HttpCode, p.Target)}}
	},
}
