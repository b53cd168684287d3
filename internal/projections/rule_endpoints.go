package projections

import (
	"fmt"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// endpointUnpaired: pods, the agent's list and cilium_lxc do not have the same endpoints. The host's and the health check's are
// no pods.
var endpointUnpaired = rule{
	name: "endpoint-unpaired", level: LevelError, hold: 10 * time.Second, needs: []string{"kube", "bpfmap", "agent"},
	means: "packets to a pod that cilium_lxc does not have are dropped or leave the node, and an address without a pod still takes those of the next pod; recreate the pod, or restart the agent",
	on:    []topic{topicMaps, topicAgent, topicKube},
	node: func(s *State) (found []problem) {
		if s.mapOf(cilium.Endpoints) == nil || s.Agent["endpoint"] == nil || s.Kube[eventpb.Kind_KIND_POD] == nil {
			return nil
		}
		for _, l := range s.locals() {
			if l.reserved() == "" && (l.pod == nil || !l.pod.Deleting) {
				if text := l.unpaired(); text != "" {
					found = append(found, problem{subject: l.subject(), text: l.text() + " " + text})
				}
			}
		}
		return found
	},
}

// unpaired tells who has an endpoint and who has not; empty where all have it. A CiliumEndpoint alone is left behind by a node
// that went, or by an agent that was not there when its pod went.
func (l *local) unpaired() string {
	inMap := l.lacking() == nil && len(l.entries) > 0
	switch {
	case l.pod != nil && l.agent == nil && !inMap:
		return "is neither in the agent's list nor in cilium_lxc"
	case l.pod != nil && l.agent == nil:
		return "is in cilium_lxc and not in the agent's list"
	case l.pod != nil && !inMap:
		return "is in the agent's list, and cilium_lxc lacks " + strings.Join(l.lacking(), ", ")
	case l.pod == nil && l.agent != nil:
		return "is in the agent's list and has no pod"
	case l.pod == nil && len(l.entries) > 0:
		return "is in cilium_lxc, and neither is it in the agent's list nor has it a pod"
	}
	return ""
}

// lacking are the pod's addresses that cilium_lxc does not have.
func (l *local) lacking() []string {
	var texts []string
	for _, a := range addrsOf(l.pod.GetPod().GetPodIps()) {
		has := false
		for _, e := range l.entries {
			has = has || e.Address == a
		}
		if !has {
			texts = append(texts, a.String())
		}
	}
	return texts
}

// subject stays the same while names and addresses of an endpoint go one after the other.
func (l *local) subject() string {
	if l.id != 0 {
		return fmt.Sprintf("endpoint %d", l.id)
	}
	return l.text()
}

func (l *local) text() string {
	text := ""
	if l.id != 0 {
		text = fmt.Sprintf("endpoint %d", l.id)
	}
	if n := l.podName(); n.Name != "" {
		text = strings.TrimSpace(text + fmt.Sprintf(" pod %s", n))
	}
	for _, a := range l.addresses {
		text += " " + a.String()
	}
	return text
}
