package projections

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// View makes one file from State.
type View struct {
	File string
	Step int // the lab's step that asks for it, with a profile; 0 for files that are there without one
	// Render returns the file's value, nil while its subject is not there. It adds to wait what the file still
	// lacks.
	Render func(s *State, w *waits) any
	// On are the topics that the file is made of. One without topics may change with any event.
	On []topic
}

// Views are all files but session.json: the lab's in order of its steps, then those of any cluster.
var Views = []View{
	{File: "iptables.json", Step: 1, Render: iptablesView},
	{File: "svc.json", Step: 2, Render: svcView},
	{File: "scale.json", Step: 3, Render: scaleView},
	{File: "ct.json", Step: 4, Render: ctView},
	{File: "prog.json", Step: 5, Render: progView},
	{File: "nodeport.json", Step: 6, Render: nodePortView},
	{File: "ghost.json", Step: 7, Render: ghostView},
	{File: "report.txt", Step: 8, Render: reportView},
	{File: "services.json", Render: servicesView, On: []topic{topicServices, topicSources}},
	{File: "connections.json", Render: connectionsView, On: []topic{topicConnections, topicServices, topicSockets, topicMaps, topicAgent, topicHost, topicKube, topicSources}},
	{File: "endpoints.json", Render: endpointsView, On: []topic{topicMaps, topicAgent, topicHost, topicKube, topicSources}},
	{File: "node.json", Render: nodeView, On: []topic{topicMaps, topicAgent, topicHost, topicKube, topicProbes, topicSources}},
	{File: "findings.json", Render: findingsView, On: []topic{topicFindings}},
}

// File is one rendered file.
type File struct {
	Name string
	Data []byte // nil: there is no such file at this position
}

// Files renders every file at State's position, session.json last.
func (s *State) Files() []File {
	return NewRenderer().Files(s)
}

// encode is the one writer of files: two spaces, keys in the order of the struct, no HTML escapes.
func encode(value any) []byte {
	switch v := value.(type) {
	case nil:
		return nil
	case text:
		return []byte(v)
	case encoded:
		return v
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		// Views are plain structs of strings and numbers, so this is a mistake in the program.
		panic(fmt.Sprintf("projections: encode %T: %v", value, err))
	}
	return b.Bytes()
}

// text is a view's value that is no JSON; encoded is one that was encoded in parts.
type (
	text    string
	encoded []byte
)

// waits collects what a file waits for, and which sources it rests on.
type waits struct {
	s       *State
	missing []string
	stale   []string
	rows    *rows // of services.json as it was made last; nil for none
}

// need returns a pointer to the value, or nil (null in the file) while it is not known, and then notes what is
// waited for: the source's trouble where it is down, else what.
func need[T any](w *waits, source, what string, v T, ok bool) *T {
	if src := w.s.Sources[source]; src != nil && src.State == eventpb.SourceState_SOURCE_STATE_DOWN {
		down := "source " + source + ", which is down: " + src.Error
		if ok {
			w.stale = appendNew(w.stale, down)
		} else {
			what = down
		}
	}
	if !ok {
		if m := w.s.unreadableMap(); m != nil && source == "bpfmap" {
			what = fmt.Sprintf("a recorder that can read %s (keys of %d bytes, values of %d)", m.Name, m.KeySize, m.ValueSize)
		}
		w.missing = appendNew(w.missing, what)
		return nil
	}
	return &v
}

func (w *waits) until(ok bool, what string) {
	if !ok {
		w.missing = appendNew(w.missing, what)
	}
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// fileStatus is one row of session.json.
type fileStatus struct {
	File string `json:"file"`
	Step int    `json:"step"`
	// complete: every value is known. stale: known, and a source it rests on is down. waiting: some value is
	// missing. absent: its subject is not there.
	Status   string   `json:"status"`
	WaitsFor []string `json:"waits_for"`
}

func (w *waits) status(v View, present bool) fileStatus {
	f := fileStatus{v.File, v.Step, "complete", w.missing}
	switch {
	case !present:
		f.Status = "absent"
	case len(w.missing) > 0:
		f.Status = "waiting"
	case len(w.stale) > 0:
		f.Status, f.WaitsFor = "stale", w.stale
	}
	if f.WaitsFor == nil {
		f.WaitsFor = []string{}
	}
	return f
}

func stamp(ns int64) *string {
	if ns == 0 {
		return nil
	}
	t := timeText(ns)
	return &t
}

func timeText(ns int64) string {
	return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000000000Z")
}

func lower(enum fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(enum.String(), prefix))
}
