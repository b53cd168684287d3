package hubble

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	flowpb "github.com/cilium/cilium/api/v1/flow"
	observerpb "github.com/cilium/cilium/api/v1/observer"
	relaypb "github.com/cilium/cilium/api/v1/relay"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// queue is how many messages of a stream may wait for the follower.
	queue = 256
	// lostEvery is how long lost events are summed.
	lostEvery = time.Second
	// backlogAtMost ends the wait for the ring's history to be read, on a node whose flows never pause.
	backlogAtMost = 2 * time.Second
)

// follower turns one connection's messages into events. It alone emits.
type follower struct {
	emit   events.Emit
	ready  func() // nil once called
	cursor *Cursor
	log    *slog.Logger
	flows  chan *observerpb.GetFlowsResponse
	agent  chan *observerpb.GetAgentEventsResponse

	started time.Time
	resumed Cursor // where this connection began
	known   map[uuid]bool
	overlap bool // what comes may be recorded already
	joined  bool // the first flow was seen, so the gap before it is known
	batch   *batch
	lost    losses
	signal  *signal

	window, lostDue, backlog *time.Timer
}

// newFollower takes how many flows the ring has: with none, there is no history to wait for.
func newFollower(emit events.Emit, ready func(), cursor *Cursor, ring uint64, triggers []sources.Trigger, log *slog.Logger) *follower {
	wait := backlogAtMost
	if ring == 0 {
		wait = window
	}
	return &follower{
		emit: emit, ready: ready, cursor: cursor, log: log,
		flows: make(chan *observerpb.GetFlowsResponse, queue), agent: make(chan *observerpb.GetAgentEventsResponse, queue),
		started: time.Now(), resumed: cursor.clone(), known: cursor.known(), overlap: true,
		batch: newBatch(), lost: losses{}, signal: newSignal(triggers),
		window: stopped(), lostDue: stopped(), backlog: time.NewTimer(wait),
	}
}

func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// since is where to begin: the cursor, and for all that the ring has, the beginning of time. (`first` cannot be
// had together with `follow`.) A time to come, after the clock was set back, would show nothing until then.
func (f *follower) since() (flows, agent *timestamppb.Timestamp) {
	now := f.started.UnixNano()
	at := min(f.resumed.sinceNs(), now)
	agentAt := min(f.resumed.AgentTimeNs, now)
	if agentAt == 0 {
		agentAt = at
	}
	return timestamppb.New(time.Unix(0, at)), timestamppb.New(time.Unix(0, agentAt))
}

// run handles messages until ctx ends.
func (f *follower) run(ctx context.Context) error {
	defer f.signal.stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case m := <-f.flows:
			err = f.takeFlows(ctx, m)
		case m := <-f.agent:
			err = f.takeAgentEvent(ctx, m)
		case <-f.window.C:
			err = f.flush(ctx)
		case <-f.lostDue.C:
			err = f.emitLost(ctx)
		case <-f.signal.rest.C:
			f.signal.rested()
		case <-f.backlog.C:
			err = f.caughtUp(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// drain emits what was received and not emitted yet. It is for the time after run.
func (f *follower) drain(ctx context.Context) error {
	for {
		var err error
		select {
		case m := <-f.flows:
			err = f.takeFlows(ctx, m)
		case m := <-f.agent:
			err = f.takeAgentEvent(ctx, m)
		default:
			if err := f.flush(ctx); err != nil {
				return err
			}
			return f.emitLost(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (f *follower) emitLost(ctx context.Context) error {
	out := f.lost.take()
	if len(out) == 0 {
		return nil
	}
	if err := f.emit(ctx, out...); err != nil {
		return err
	}
	for _, e := range out {
		f.cursor.Add(e)
	}
	return nil
}

func (f *follower) takeFlows(ctx context.Context, m *observerpb.GetFlowsResponse) error {
	seen := time.Now()
	if f.ready != nil && seen.Sub(f.started) < backlogAtMost {
		f.backlog.Reset(window) // more of the ring's history may follow
	}
	switch {
	case m.GetFlow() != nil:
		return f.takeFlow(ctx, m.GetFlow(), seen)
	case m.GetLostEvents() != nil:
		told, ok := unixNano(m.GetTime())
		if !ok {
			told = seen.UnixNano()
		}
		f.takeLost(m.GetLostEvents(), told)
	case m.GetNodeStatus() != nil:
		return f.takeNodeStatus(ctx, m.GetNodeStatus(), seen)
	}
	return nil
}

// takeLost counts a loss once. The observer keeps those of the rings before its own among its flows, and sends them
// again with the flows around them.
func (f *follower) takeLost(lost *flowpb.LostEvent, told int64) {
	gap := lossGap(lost, f.lastNs(), told)
	own := lost.GetSource() == flowpb.LostEventSource_HUBBLE_RING_BUFFER
	if f.overlap && !own && gap.ToNs <= f.resumed.lostNs[gap.Detail] {
		return
	}
	if len(f.lost) == 0 {
		f.lostDue.Reset(lostEvery)
	}
	f.lost.add(lost.GetSource(), gap)
}

// lastNs is the time of the last flow received, 0 when there was none.
func (f *follower) lastNs() int64 {
	if f.batch.lastNs != 0 {
		return f.batch.lastNs
	}
	return f.cursor.TimeNs
}

func (f *follower) takeFlow(ctx context.Context, flow *flowpb.Flow, seen time.Time) error {
	at, _ := unixNano(flow.GetTime())
	if err := f.join(ctx, at); err != nil {
		return err
	}
	if id, ok := parseUUID(flow.GetUuid()); ok && f.known[uuid(id)] {
		return nil
	}
	f.overlap = false
	if newConnection(flow) {
		f.signal.fire()
	}
	redact(flow)
	f.open()
	if err := f.batch.addFlow(flow, seen); err != nil {
		return err
	}
	return f.full(ctx)
}

// join looks at the connection's first flow. The observer begins with the flows of the cursor's own time; if
// these are gone, so is what came after them.
func (f *follower) join(ctx context.Context, at int64) error {
	if f.joined {
		return nil
	}
	f.joined = true
	if f.resumed.TimeNs == 0 || at <= f.resumed.TimeNs {
		return nil
	}
	return f.emit(ctx, events.New(&eventpb.Gap{
		FromNs: f.resumed.TimeNs, ToNs: at, Reason: eventpb.GapReason_GAP_REASON_LOST,
		Detail: "the observer's ring no longer reaches back to the last recorded flow",
	}))
}

func (f *follower) takeAgentEvent(ctx context.Context, m *observerpb.GetAgentEventsResponse) error {
	if m.GetAgentEvent() == nil {
		return nil
	}
	bytes, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m.GetAgentEvent())
	if err != nil {
		return fmt.Errorf("marshal agent event: %w", err)
	}
	at, _ := unixNano(m.GetTime())
	if at <= f.resumed.AgentTimeNs && contains(f.resumed.AgentEvents, bytes) {
		return nil
	}
	f.open()
	f.batch.addAgentEvent(&eventpb.AgentEvent{TimeNs: at, Event: bytes}, time.Now())
	return f.full(ctx)
}

// takeNodeStatus: a relay says which nodes it cannot hear.
func (f *follower) takeNodeStatus(ctx context.Context, s *relaypb.NodeStatusEvent, seen time.Time) error {
	switch s.GetStateChange() {
	case relaypb.NodeState_NODE_UNAVAILABLE, relaypb.NodeState_NODE_ERROR, relaypb.NodeState_NODE_GONE:
	default:
		return nil
	}
	f.log.Warn("the relay cannot hear nodes", "nodes", s.GetNodeNames(), "message", s.GetMessage())
	return f.emit(ctx, events.New(&eventpb.Gap{
		FromNs: seen.UnixNano(), ToNs: seen.UnixNano(), Reason: eventpb.GapReason_GAP_REASON_SOURCE_DOWN,
		Detail: fmt.Sprintf("the relay does not hear %v: %s", s.GetNodeNames(), s.GetMessage()),
	}))
}

// open begins a window with its first message.
func (f *follower) open() {
	if f.batch.empty() {
		f.window.Reset(window)
	}
}

func (f *follower) full(ctx context.Context) error {
	if !f.batch.full() {
		return nil
	}
	return f.flush(ctx)
}

func (f *follower) flush(ctx context.Context) error {
	if f.batch.empty() {
		return nil
	}
	f.window.Stop()
	out := f.batch.take()
	if err := f.emit(ctx, out...); err != nil {
		return err
	}
	for _, e := range out {
		f.cursor.Add(e)
	}
	if f.ready != nil && f.batch.lastNs >= f.started.UnixNano() {
		return f.caughtUp(ctx)
	}
	return nil
}

// caughtUp: what the ring had before this connection is stored.
func (f *follower) caughtUp(ctx context.Context) error {
	ready := f.ready
	if ready == nil {
		return nil
	}
	f.ready = nil
	f.backlog.Stop()
	if err := f.flush(ctx); err != nil {
		return err
	}
	ready()
	return nil
}
