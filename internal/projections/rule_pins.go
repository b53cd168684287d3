package projections

import (
	"fmt"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// pinUnused: a pin's map is another one than the programs use. Policy maps are left out: all have the same name in the kernel, and
// that of the host is used with the host firewall alone.
var pinUnused = rule{
	name: "pin-unused", level: LevelError, hold: 15 * time.Second, needs: []string{"host", "bpfmap"}, whole: usedMapsKnown,
	means: "who reads the pin, as the agent, cilium-dbg and this recorder do, sees a map that decides nothing, and who writes it changes nothing: connections go by the other map, of which these files do not tell; restart the agent, which then loads the programs anew",
	on:    []topic{topicHost, topicPins},
	node: func(s *State) (found []problem) {
		used, stray := map[uint32]bool{}, map[string]*eventpb.UsedMap{}
		for _, u := range s.Host.Attachments.UsedMaps {
			used[u.Id] = true
		}
		pinned := map[uint32]bool{}
		for _, m := range s.Maps {
			pinned[m.MapID] = true
		}
		for _, u := range s.Host.Attachments.UsedMaps {
			if !pinned[u.Id] {
				stray[u.Name] = u
			}
		}
		for name, m := range s.Maps {
			other := stray[kernelName(name)]
			if m.MapID == 0 || used[m.MapID] || other == nil || m.Kind == cilium.Policy {
				continue
			}
			found = append(found, problem{subject: name, text: fmt.Sprintf("the pin %s is the map %d, and the attached programs use the map %d of that name", name, m.MapID, other.Id)})
		}
		return found
	},
}

// kernelName is what the kernel keeps of a map's or program's name.
func kernelName(name string) string {
	const kept = 15
	return name[:min(len(name), kept)]
}

// usedMapsKnown says that the maps which programs use are those of the programs that are attached now: they follow some seconds
// after these.
func usedMapsKnown(s *State) bool {
	if len(s.Host.Attachments.GetUsedMaps()) == 0 || s.Host.unreadable("tail calls", "names of programs") {
		return false
	}
	used := map[uint32]bool{}
	for _, u := range s.Host.Attachments.UsedMaps {
		used[u.Id] = true
	}
	for _, a := range s.Host.Attachments.Attachments {
		for _, id := range a.MapIds {
			if !used[id] {
				return false
			}
		}
	}
	return true
}
