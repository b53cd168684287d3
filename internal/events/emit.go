package events

import (
	"context"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Emit hands events over to the journal, in order. It blocks until they are stored, so that a journal that
// cannot keep up slows the source instead of losing facts. It fills in ID, Node, Source, SourceSeq, Session
// and, where 0, SeenNs. It may be called at the same time. What can be retried is retried behind it; it returns
// the context's error, that the journal is closed, or that an event is too big.
type Emit func(ctx context.Context, events ...*eventpb.Event) error
