package events

import (
	"context"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Emit hands events over to the journal, in order. It blocks until they are stored, so that a journal that
// cannot keep up slows the source instead of losing facts. It fills in ID, Node, Source, SourceSeq, Session
// and, where 0, SeenNs. Its error is the context's: everything else is retried behind it.
type Emit func(ctx context.Context, events ...*eventpb.Event) error
