package sources

import "context"

// Synced is a Cluster that can say when its first complete lists are there.
type Synced interface {
	// Synced returns a channel that is closed once they are, and stays so.
	Synced() <-chan struct{}
}

// WaitSynced waits until c has its first lists, or ctx ends; at once where c cannot say.
func WaitSynced(ctx context.Context, c Cluster) error {
	s, ok := c.(Synced)
	if !ok {
		return nil
	}
	select {
	case <-s.Synced():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
