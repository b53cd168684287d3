package recorder

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/sources/hubble"
)

// Where flows are resumed is found from the journal's end, and is where reading all of it would have led: whether
// the last flows and agent events stand at its end, far before it, at its start or nowhere.
func TestHubbleCursor(t *testing.T) {
	for name, at := range map[string]struct{ flows, agent []int }{
		"at the end":       {[]int{1, 5, 1999}, []int{2, 1998}},
		"far before":       {[]int{100, 101}, []int{1500}},
		"at the start":     {[]int{0}, nil},
		"agent's at start": {[]int{700, 1999}, []int{0, 1}},
		"none":             {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := journal.Open(filepath.Join(t.TempDir(), "session"), journal.Options{Node: "n1", Sync: 1e9})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close(t.Context())
			list := make([]*eventpb.Event, 2000)
			for i := range list {
				list[i] = events.New(&eventpb.Mark{Text: fmt.Sprint(i)})
			}
			for _, i := range at.flows {
				list[i] = events.New(&eventpb.Flows{Flows: []*eventpb.Flow{
					{TimeNs: int64(i) + 1, Uuid: []byte(fmt.Sprintf("%016d", i))}, {TimeNs: int64(i) + 1, Uuid: []byte(fmt.Sprintf("%016d", 9000+i))}}})
			}
			for _, i := range at.agent {
				list[i] = events.New(&eventpb.AgentEvents{Events: []*eventpb.AgentEvent{{TimeNs: int64(i) + 1, Event: []byte(fmt.Sprint(i))}}})
			}
			var want hubble.Cursor
			for _, e := range list {
				want.Add(e)
			}
			if err := j.Emitter("test")(t.Context(), list...); err != nil {
				t.Fatal(err)
			}
			got, err := hubbleCursor(t.Context(), j, 1, 2000)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
				t.Errorf("read from the start (-), from the end (+):\n%s", diff)
			}
		})
	}
}
