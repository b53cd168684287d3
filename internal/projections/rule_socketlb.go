package projections

import (
	"cmp"
	"fmt"
	"time"
)

// socketHold is longer than an agent that starts takes to put one program after the other in place.
const socketHold = 10 * time.Second

// socketLBDetached: nothing translates sockets.
var socketLBDetached = rule{
	name: "socket-lb-detached", level: LevelError, hold: socketHold, needs: []string{"host", "agent"}, whole: socketLBKnown,
	means: "connections to ClusterIPs are not translated where sockets connect, and with full coverage nowhere else: they leave the node or are refused; restart the agent, and see in its log why it could not attach",
	on:    []topic{topicHost, topicAgent},
	node: func(s *State) []problem {
		lb, _ := s.socketLB()
		if !s.features().SocketLB.Enabled || len(lb.root)+len(lb.elsewhere) > 0 {
			return nil
		}
		return []problem{{subject: "socket LB", text: "no program of socket load balancing is at any cgroup, while the agent says that it is enabled"}}
	},
}

// socketLBElsewhere: the cgroup-namespace trap. An agent that sees its own cgroup as the root attaches there.
var socketLBElsewhere = rule{
	name: "socket-lb-elsewhere", level: LevelError, hold: socketHold, needs: []string{"host", "agent"}, whole: socketLBKnown,
	means: "sockets of pods that are not below that cgroup connect to ClusterIPs untranslated; the agent runs in a cgroup namespace of its own: mount the node's whole cgroup hierarchy for it (cgroup.autoMount, cgroup.hostRoot)",
	on:    []topic{topicHost, topicAgent},
	node: func(s *State) []problem {
		lb, _ := s.socketLB()
		if !s.features().SocketLB.Enabled || len(lb.root) > 0 || len(lb.elsewhere) == 0 {
			return nil
		}
		where := cmp.Or(lb.elsewhere[0].Cgroup, fmt.Sprintf("with the id %d", lb.elsewhere[0].CgroupId))
		return []problem{{subject: "socket LB", text: fmt.Sprintf("the programs of socket load balancing are at the cgroup %s, and none is at the root of all cgroups", where)}}
	},
}

// socketLBIncomplete: one of the programs is not there.
var socketLBIncomplete = rule{
	name: "socket-lb-incomplete", level: LevelError, hold: socketHold, needs: []string{"host", "agent"}, whole: socketLBKnown,
	means: "what the program does is not done, for its family: connect and sendmsg translate new connections and datagrams, recvmsg and getpeername show apps the Service's address, post_bind keeps NodePorts from being bound; restart the agent",
	on:    []topic{topicHost, topicAgent},
	node: func(s *State) (found []problem) {
		lb, _ := s.socketLB()
		if len(lb.root) == 0 {
			return nil // told by the others
		}
		for _, attach := range lb.missing {
			found = append(found, problem{subject: attach, text: fmt.Sprintf("Cilium's program for %s is not at the cgroup at which the others are", attach)})
		}
		return found
	},
}

func socketLBKnown(s *State) bool {
	_, ok := s.socketLB()
	return ok
}
