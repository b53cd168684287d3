package journal

import "context"

// Record is one stored event: its position and its bytes as stored.
type Record struct {
	Seq  uint64
	Data []byte // an eventpb.Event; must not be changed
}

// Reader is what the live journal and a tape have in common.
type Reader interface {
	// Bounds returns the first and the last position; last < first when there is no record. Positions
	// between them ascend and may have holes where a disk lost some.
	Bounds() (first, last uint64, err error)
	// Read calls fn for each record from position from to position to, both included, in order; a to of 0 means
	// the last. It returns fn's error, or the context's when that ends first.
	Read(ctx context.Context, from, to uint64, fn func(Record) error) error
}

var (
	_ Reader = (*Journal)(nil)
)
