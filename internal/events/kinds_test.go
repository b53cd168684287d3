package events

import (
	"testing"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// Every body of the schema can be wrapped, and is named as in the schema.
func TestNewTakesEveryBody(t *testing.T) {
	fields := (&eventpb.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	if fields.Len() == 0 {
		t.Fatal("the event has no bodies")
	}
	for i := range fields.Len() {
		f := fields.Get(i)
		body := (&eventpb.Event{}).ProtoReflect().NewField(f).Message().Interface()
		e := New(body)
		if got := KindOf(e); got != string(f.Name()) {
			t.Errorf("New(%T) has kind %s, want %s", body, got, f.Name())
		}
	}
}

func TestKindOfNewerBody(t *testing.T) {
	e := &eventpb.Event{}
	// Field 99 stands for a body that a newer version added.
	if err := proto.Unmarshal([]byte{0x9a, 0x06, 0x00}, e); err != nil {
		t.Fatal(err)
	}
	if got := KindOf(e); got != "unknown" {
		t.Errorf("kind %s, want unknown", got)
	}
	if len(e.ProtoReflect().GetUnknown()) == 0 {
		t.Error("the unknown body is not kept")
	}
}
