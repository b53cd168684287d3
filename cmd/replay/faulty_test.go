package main

import (
	"context"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal/journaltest"
)

// faulty IN OUT copies the lab's tape as it would be had the maps gone wrong: after seq 209 the backend 17, which is
// 10.42.0.94:8080, is not in its map until after seq 245, and from seq 220 on slot 2 of Service web's frontend is not.
func faulty(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: faulty IN OUT")
	}
	id, value := []byte{17, 0, 0, 0}, []byte{10, 42, 0, 94, 0x1f, 0x90, 6, 0, 0, 0, 0, 0} // 8080/TCP, active
	backend := func(d *eventpb.MapDelta) []*eventpb.MapDelta {
		d.Map, d.KeySize, d.ValueSize = "cilium_lb4_backends_v3", 4, 12
		return []*eventpb.MapDelta{d}
	}
	slot := &eventpb.MapDelta{Map: "cilium_lb4_services_v2", KeySize: 12, ValueSize: 12, Deletes: []byte{10, 43, 236, 246, 0, 80, 2, 0, 6, 0, 0, 0}}
	ts.Check(journaltest.Insert(context.Background(), ts.MkAbs(args[0]), ts.MkAbs(args[1]), map[uint64][]*eventpb.MapDelta{
		209: backend(&eventpb.MapDelta{Deletes: id}),
		220: {slot},
		245: backend(&eventpb.MapDelta{Upserts: append(id[:4:4], value...)}),
	}))
}
