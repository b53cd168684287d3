// Package sources says what a source is and keeps sources running. Each source has its own folder below; they
// know the events they emit and nothing of the journal or the projections.
package sources

import (
	"context"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Source observes one thing and emits what it sees.
type Source interface {
	// Name is the source's name in events, flags and session.json: lower case, one word.
	Name() string
	// Check tries everything that Run needs, without emitting, and says what it would see.
	Check(ctx context.Context) []Finding
	// Run observes until ctx ends and returns nil then. Any other return is a break: the supervisor records a
	// gap, waits and runs it again. The first thing emitted is a complete snapshot, and ready is called once
	// when that snapshot is stored. Run waits for every goroutine that it started.
	Run(ctx context.Context, emit events.Emit, ready func()) error
}

// Finding is one line of `recorder check`.
type Finding struct {
	Thing string // what was tried: a path, an address, a right
	Seen  string // what is there, when Err is nil
	Err   error  // an *events.Trouble names the mend
}

// Cluster is what the kube source knows now, for sources that aim at pods and Services. Objects are shared and
// must not be changed.
type Cluster interface {
	// Object returns nil when there is none, or none yet.
	Object(kind eventpb.Kind, namespace, name string) *eventpb.KubeObject
	// Objects lists those of one kind in order of namespace and name.
	Objects(kind eventpb.Kind) []*eventpb.KubeObject
	// Changed returns a channel that is closed at the next change. Take it before looking.
	Changed() <-chan struct{}
}
