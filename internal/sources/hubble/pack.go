package hubble

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// pack takes out of a flow what its batch or its envelope says: time, uuid, node name and labels. The rest is
// marshalled, with the fields that this version does not know. The flow is changed. A time or a uuid that the
// envelope cannot hold exactly stays in the flow.
func pack(f *flowpb.Flow) (*eventpb.Flow, error) {
	out := &eventpb.Flow{}
	if ns, ok := unixNano(f.GetTime()); ok {
		out.TimeNs, f.Time = ns, nil
	}
	if id, ok := parseUUID(f.GetUuid()); ok {
		out.Uuid, f.Uuid = id, ""
	}
	f.NodeName, f.NodeLabels = "", nil
	var err error
	if out.Flow, err = (proto.MarshalOptions{Deterministic: true}).Marshal(f); err != nil {
		return nil, fmt.Errorf("marshal flow: %w", err)
	}
	return out, nil
}

// Expand restores flow i of a batch as the observer sent it, less what was redacted. It returns nil when there is
// no such flow or its bytes are no flow.
func Expand(batch *eventpb.Flows, i int) *flowpb.Flow {
	if i < 0 || i >= len(batch.GetFlows()) {
		return nil
	}
	packed := batch.GetFlows()[i]
	f := &flowpb.Flow{}
	if err := proto.Unmarshal(packed.GetFlow(), f); err != nil {
		return nil
	}
	if packed.GetTimeNs() != 0 {
		f.Time = timestamppb.New(time.Unix(0, packed.GetTimeNs()))
	}
	if len(packed.GetUuid()) == 16 {
		f.Uuid = formatUUID(packed.GetUuid())
	}
	f.NodeName = batch.GetNodeName()
	f.NodeLabels = slices.Clone(batch.GetNodeLabels())
	return f
}

// unixNano is false for a time that is absent, not valid, out of range or 0.
func unixNano(t *timestamppb.Timestamp) (int64, bool) {
	const most = math.MaxInt64/int64(time.Second) - 1
	if !t.IsValid() || t.Seconds > most || t.Seconds < -most || len(t.ProtoReflect().GetUnknown()) > 0 {
		return 0, false
	}
	ns := t.Seconds*1e9 + int64(t.Nanos)
	return ns, ns != 0
}

// parseUUID is false for what formatUUID would not write the same.
func parseUUID(text string) ([]byte, bool) {
	if len(text) != 36 {
		return nil, false
	}
	id, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(id) != 16 || formatUUID(id) != text {
		return nil, false
	}
	return id, true
}

func formatUUID(id []byte) string {
	h := hex.EncodeToString(id)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}
