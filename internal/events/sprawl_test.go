package events

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

func TestSprawls(t *testing.T) {
	e := New(&eventpb.KubeObjects{Objects: []*eventpb.KubeObject{
		{Name: "a", Labels: map[string]string{"k": "v", "l": "w"}},
		{Name: "b", Service: &eventpb.Service{ClusterIps: []string{"10.0.0.1", "10.0.0.2"}}},
	}})
	b, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	// The body, two objects, two labels, a Service and two addresses.
	const parts = 1 + 2 + 2 + 1 + 2
	of := e.ProtoReflect().Descriptor()
	if Sprawls(b, of, parts) || !Sprawls(b, of, parts-1) {
		t.Errorf("want %d parts", parts)
	}
	if Sprawls([]byte("no message"), of, 0) {
		t.Error("what is no message sprawls")
	}
}
