package journal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// TapeWriter writes a tape from its start to its end; nothing is written twice. After an error it is of no use.
type TapeWriter struct {
	out    io.Writer
	sum    hash.Hash
	offset int64
	enc    *zstd.Encoder
	index  index

	frame   []byte // records that are not written yet
	first   frameAt
	records int
	seq     uint64 // of the last record
	ns      int64  // the latest seen_ns
	err     error
}

// NewTapeWriter writes the header.
func NewTapeWriter(w io.Writer, h *eventpb.TapeHeader) (*TapeWriter, error) {
	enc, err := newEncoder()
	if err != nil {
		return nil, fmt.Errorf("make encoder: %w", err)
	}
	t := &TapeWriter{out: w, sum: sha256.New(), enc: enc}
	payload, err := encode(h)
	if err == nil && len(payload) > maxHeader {
		err = fmt.Errorf("%w: header of %d bytes", ErrTooBig, len(payload))
	}
	if err != nil {
		return nil, err
	}
	if err := t.write(skippable(frameHeader, nameHeader, payload, nil)); err != nil {
		return nil, err
	}
	return t, nil
}

func encode(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return b, nil
}

func (t *TapeWriter) write(b []byte) error {
	if t.err != nil {
		return t.err
	}
	n, err := t.out.Write(b)
	t.sum.Write(b[:n])
	t.offset += int64(n)
	if err != nil {
		t.err = fmt.Errorf("write tape: %w", err)
	}
	return t.err
}

// Write adds a record; positions must ascend.
func (t *TapeWriter) Write(r Record) error {
	if len(r.Data) > MaxEvent {
		return fmt.Errorf("%w: record %d has %d bytes", ErrTooBig, r.Seq, len(r.Data))
	}
	if n := len(t.index.keyframes); r.Seq <= t.seq || t.seq == 0 && n > 0 && r.Seq <= t.index.keyframes[n-1].seq {
		return fmt.Errorf("write tape: position %d after %d", r.Seq, t.seq)
	}
	if len(t.frame) > 0 && len(t.frame)+len(r.Data)+32 > frameTarget {
		if err := t.flush(); err != nil {
			return err
		}
	}
	ns := max(t.ns, seenNs(r.Data))
	if len(t.frame) == 0 {
		t.first = frameAt{seq: r.Seq, ns: ns}
	}
	t.frame = appendRecord(t.frame, r)
	t.seq, t.ns = r.Seq, ns
	t.records++
	return t.err
}

func (t *TapeWriter) flush() error {
	if len(t.frame) == 0 {
		return t.err
	}
	packed := t.enc.EncodeAll(t.frame, nil)
	t.first.offset, t.first.size = t.offset, int64(len(packed))
	t.index.add(t.first, t.records, t.seq, t.ns)
	t.frame, t.records = t.frame[:0], 0
	return t.write(packed)
}

// Keyframe adds what was known after the record at seq, which is written already; version is that of the fold
// that made state. Before the first record it says what was known before it, where records before it are gone.
func (t *TapeWriter) Keyframe(seq uint64, version uint32, state []byte) error {
	n, begun := len(t.index.keyframes), t.seq > 0
	if n > 0 && seq < t.index.keyframes[n-1].seq || begun && seq > t.seq {
		return fmt.Errorf("write tape: keyframe of %d at %d", seq, t.seq)
	}
	if len(state) > maxKeyframe {
		return fmt.Errorf("%w: keyframe of %d bytes", ErrTooBig, len(state))
	}
	if err := t.flush(); err != nil {
		return err
	}
	payload, err := encode(&eventpb.TapeKeyframe{Seq: seq, FoldVersion: version, State: t.enc.EncodeAll(state, nil)})
	if err != nil {
		return err
	}
	t.index.keyframes = append(t.index.keyframes, keyframeAt{seq, t.offset})
	return t.write(skippable(frameKeyframe, nameKeyframe, payload, nil))
}

var errTapeClosed = errors.New("tape is closed")

// Close writes the index. It does not close what the tape is written to.
func (t *TapeWriter) Close() error {
	if err := t.flush(); err != nil {
		return err
	}
	t.index.sha256 = t.sum.Sum(nil)
	payload, err := encode(t.index.message())
	if err == nil && len(payload) > maxIndex {
		err = fmt.Errorf("%w: index of %d bytes", ErrTooBig, len(payload))
	}
	if err != nil {
		return err
	}
	if err := t.write(skippable(frameIndex, nameIndex, payload, trailer(t.offset, len(payload)))); err != nil {
		return err
	}
	t.err = errTapeClosed
	return t.enc.Close()
}

// WriteTapeFile writes a tape to path: beside it first, and in its place when it is whole and on the disk.
func WriteTapeFile(path string, h *eventpb.TapeHeader, fill func(*TapeWriter) error) error {
	err := WriteAtomic(path, func(w io.Writer) error {
		t, err := NewTapeWriter(w, h)
		if err != nil {
			return err
		}
		if err := fill(t); err != nil {
			return err
		}
		return t.Close()
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
