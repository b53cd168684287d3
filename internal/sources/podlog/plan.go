package podlog

import "github.com/tapedeck-io/tapedeck/internal/events/eventpb"

// instance is one run of one container: what a log belongs to.
type instance struct {
	namespace, pod, podUID string
	container, id          string
}

// wanted is an instance to read, and how.
type wanted struct {
	instance
	restarts int32 // how many instances of the container were before it
	previous bool  // only to be had as the container's previous log
	running  bool  // its log may still grow
}

// plan lists the instances of a pod whose logs can be read now: of each container the one before, then the
// current one.
func plan(o *eventpb.KubeObject) []wanted {
	var list []wanted
	for _, c := range o.GetPod().GetContainers() {
		at := instance{namespace: o.Namespace, pod: o.Name, podUID: o.Uid, container: c.Name}
		if c.PreviousId != "" && c.PreviousId != c.Id {
			w := wanted{instance: at, restarts: c.Restarts - 1, previous: true}
			w.id = c.PreviousId
			list = append(list, w)
		}
		if c.Id != "" {
			// Between two runs the ID is still that of the run that ended; the log is then the current one.
			w := wanted{instance: at, restarts: c.Restarts, running: c.State == "running"}
			w.id = c.Id
			list = append(list, w)
		}
	}
	return list
}
