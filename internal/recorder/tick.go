package recorder

import (
	"context"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// tick stores a tick whenever one is asked for, until ctx ends. The fold has no clock: that something has lasted long
// enough is known from the next event, and on a quiet node there may be none.
func tick(ctx context.Context, asked <-chan struct{}, emit events.Emit) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-asked:
			if err := emit(ctx, events.New(&eventpb.Tick{})); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}
