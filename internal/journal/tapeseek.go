package journal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// SeqAt returns the position of a moment (Unix nanoseconds): the last record before the first one that was seen
// later, and the position before the first record when that one was later already.
func (t *Tape) SeqAt(timeNs int64) (uint64, error) {
	first, last := t.index.bounds()
	if last < first {
		return 0, nil
	}
	if timeNs >= t.index.lastNs {
		return last, nil
	}
	i := t.index.frameAt(timeNs)
	if i < 0 {
		return first - 1, nil
	}
	var at uint64
	later := errors.New("later")
	err := t.readFrame(i, func(r Record) error {
		if seenNs(r.Data) > timeNs {
			return later
		}
		at = r.Seq
		return nil
	})
	if err != nil && err != later {
		return 0, err
	}
	return at, nil
}

// Keyframe returns the state of the last keyframe at or before position at, and the version of the fold that made
// it; ok is false when there is none. One that cannot be read is an error beside its position: the state can be had
// from an earlier one, or from the start.
func (t *Tape) Keyframe(at uint64) (seq uint64, version uint32, state []byte, ok bool, err error) {
	k, found := t.index.keyframeOf(at)
	if !found {
		return 0, 0, nil, false, nil
	}
	m, _, err := t.readKeyframe(k.offset)
	if err == nil && m.Seq != k.seq {
		err = fmt.Errorf("of position %d, not %d", m.Seq, k.seq)
	}
	if err == nil {
		state, err = inflateState(m.State)
	}
	if err != nil {
		cause := fmt.Errorf("%w: keyframe at byte %d: %w", ErrDamaged, k.offset, err)
		return k.seq, 0, nil, false, t.trouble(cause, "use another copy, or pack the session again")
	}
	return m.Seq, m.FoldVersion, state, true, nil
}

func (t *Tape) readKeyframe(offset int64) (m *eventpb.TapeKeyframe, size int64, err error) {
	s, err := readSection(t.in, offset, t.end, frameKeyframe, nameKeyframe, maxKeyframeIn, 0)
	if err != nil {
		return nil, 0, err
	}
	m = &eventpb.TapeKeyframe{}
	return m, s.size, proto.Unmarshal(s.payload, m)
}

// Verify reads everything: the SHA-256 over all frames, each frame's own checksum, the order of positions and
// their number, and the keyframes.
func (t *Tape) Verify(ctx context.Context) error {
	if t.torn != nil {
		return t.torn
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(t.in, 0, t.end)); err != nil {
		return fmt.Errorf("read tape: %w", err)
	}
	if string(sum.Sum(nil)) != string(t.index.sha256) {
		return t.trouble(fmt.Errorf("%w: SHA-256 does not match", ErrDamaged), "use another copy, or pack the session again")
	}
	var records uint64
	if err := t.Read(ctx, 0, 0, func(Record) error { records++; return nil }); err != nil {
		return err
	}
	if records != t.index.records {
		return t.trouble(fmt.Errorf("%w: %d records, %d by the index", ErrDamaged, records, t.index.records), "pack the session again")
	}
	for _, k := range t.index.keyframes {
		if _, _, _, _, err := t.Keyframe(k.seq); err != nil {
			return err
		}
	}
	return nil
}
