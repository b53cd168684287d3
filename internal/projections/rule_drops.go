package projections

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	flowpb "github.com/cilium/cilium/api/v1/flow"
)

// packetsDropped: the datapath drops packets on the way to a Service that nobody wants dropped.
var packetsDropped = rule{
	name: "packets-dropped", level: LevelError, needs: []string{"hubble"},
	means: "the connections of these packets stall or fail; `replay events TAPE --verdict DROPPED` has each packet, and what else was found of the Service tells why where the maps show it. It ends a minute after the last packet",
	on:    []topic{topicDrops},
	node:  func(s *State) []problem { return s.dropProblems(false) },
}

// packetsRefused: the datapath drops packets on the way to a Service because it is told to.
var packetsRefused = rule{
	name: "packets-refused", level: LevelWarning, needs: []string{"hubble"},
	means: "these clients get no answer from the Service, as a policy, the source ranges or the agent's options ask for; change those if they are meant to. It ends a minute after the last packet",
	on:    []topic{topicDrops},
	node:  func(s *State) []problem { return s.dropProblems(true) },
}

// dropText tells why packets are dropped for a reason, where its name does not.
var dropText = map[flowpb.DropReason]string{
	flowpb.DropReason_STALE_OR_UNROUTABLE_IP:              "no endpoint has the address any more",
	flowpb.DropReason_SERVICE_BACKEND_NOT_FOUND:           "no backend is behind the frontend, or the chosen slot's is not in the map",
	flowpb.DropReason_CT_MAP_INSERTION_FAILED:             "the conntrack map takes no more entries",
	flowpb.DropReason_NO_MAPPING_FOR_NAT_MASQUERADE:       "no port is free to translate to, or nothing is known that a reply is of",
	flowpb.DropReason_FIB_LOOKUP_FAILED:                   "the kernel has no route or neighbour for the way to the backend",
	flowpb.DropReason_NO_TUNNEL_OR_ENCAPSULATION_ENDPOINT: "no tunnel leads to the backend's node",
	flowpb.DropReason_DROP_EP_NOT_READY:                   "the endpoint's programs are not loaded yet",
	flowpb.DropReason_DROP_HOST_NOT_READY:                 "the host's programs are not loaded yet",
	flowpb.DropReason_MISSED_TAIL_CALL:                    "a program is missing, as while the agent loads others",
}

// refusalText tells of the reasons that somebody asked for.
var refusalText = map[flowpb.DropReason]string{
	flowpb.DropReason_POLICY_DENIED:                "no network policy allows it",
	flowpb.DropReason_POLICY_DENY:                  "a network policy denies it",
	flowpb.DropReason_AUTH_REQUIRED:                "a network policy asks for authentication",
	flowpb.DropReason_DENIED_BY_LB_SRC_RANGE_CHECK: "the client is outside of the source ranges",
	flowpb.DropReason_IS_A_CLUSTERIP:               "a ClusterIP is not served to clients from outside of the cluster",
}

func (s *State) dropProblems(refused bool) []problem {
	var found []problem
	for _, k := range slices.SortedFunc(maps.Keys(s.drops), dropKey.compare) {
		why, is := refusalText[k.reason]
		if is != refused {
			continue
		}
		if !is {
			why = dropText[k.reason]
		}
		d, name := s.drops[k], reasonName(k.reason)
		text := fmt.Sprintf("%s on the way of %s: %s", packetsText(d.count), k.path, name)
		if why != "" {
			text += " (" + why + ")"
		}
		if k.reason == flowpb.DropReason_DENIED_BY_LB_SRC_RANGE_CHECK {
			text += s.rangesText(d.to)
		}
		text += fmt.Sprintf("; the last at %s from %s to %s", timeText(d.lastNs), d.from, d.to)
		if len(d.also) > 0 {
			text += ", which is a backend of " + firstOf(d.also) + " too"
		}
		found = append(found, problem{subject: k.path + " " + name, text: text, sinceNs: d.firstNs})
	}
	return found
}

func packetsText(n uint64) string {
	if n == 1 {
		return "1 packet dropped"
	}
	return fmt.Sprintf("%d packets dropped", n)
}

// rangesText tells a frontend's source ranges.
func (s *State) rangesText(frontend string) string {
	k, _ := frontendKeyOf(frontend)
	f := s.LB.frontends[k]
	if f == nil {
		return ""
	}
	r := s.sourceRanges(k, f)
	switch {
	case r == nil:
		return ""
	case len(r.Ranges) == 0:
		return fmt.Sprintf("; %s checks them and has none", k)
	case r.Policy == "deny":
		return fmt.Sprintf("; %s denies %s", k, strings.Join(r.Ranges, ", "))
	}
	return fmt.Sprintf("; %s allows %s", k, strings.Join(r.Ranges, ", "))
}
