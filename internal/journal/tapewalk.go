package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
)

// walk makes the index of a tape that has none by reading frame after frame, up to the last whole one, and says
// why it ends there.
func (t *Tape) walk(start int64, why error) {
	t.index = &index{}
	off := start
	for off < t.end {
		size, err := t.step(off)
		if err != nil {
			why = err
			break
		}
		off += size
	}
	t.end = off
	cause := fmt.Errorf("%w: whole up to byte %d, position %d of %d: %w",
		ErrTorn, off, t.index.lastSeq, t.header.LastSeq, why)
	t.torn = t.trouble(cause, "what is before can be read; for the rest, pack the session again")
}

var errIndexFrame = errors.New("index cannot be read")

// step notes the frame at off and returns its size.
func (t *Tape) step(off int64) (int64, error) {
	head := make([]byte, skipHead)
	if t.end-off < skipHead {
		return 0, io.ErrUnexpectedEOF
	}
	if _, err := t.in.ReadAt(head, off); err != nil {
		return 0, err
	}
	switch magic := binary.LittleEndian.Uint32(head); {
	case magic == frameZstd:
		return t.stepFrame(off)
	case magic == frameKeyframe:
		m, size, err := t.readKeyframe(off)
		if err != nil {
			return 0, err
		}
		if n := len(t.index.keyframes); len(t.index.frames) > 0 && m.Seq > t.index.lastSeq || n > 0 && m.Seq < t.index.keyframes[n-1].seq {
			return 0, fmt.Errorf("keyframe of %d at %d", m.Seq, t.index.lastSeq)
		}
		t.index.keyframes = append(t.index.keyframes, keyframeAt{m.Seq, off})
		return size, nil
	case magic == frameIndex:
		return 0, errIndexFrame
	case magic&^0xF == frameHeader:
		size := skipHead + int64(binary.LittleEndian.Uint32(head[4:]))
		if size > t.end-off {
			return 0, io.ErrUnexpectedEOF
		}
		return size, nil
	}
	return 0, errors.New("not a frame")
}

func (t *Tape) stepFrame(off int64) (int64, error) {
	size, err := zstdFrameSize(t.in, off, t.end)
	if err != nil {
		return 0, err
	}
	raw, err := t.decode(off, size)
	if err != nil {
		return 0, err
	}
	f := frameAt{offset: off, size: size}
	records, last, ns := 0, uint64(0), t.index.lastNs
	err = eachRecord(raw, t.index.lastSeq+1, math.MaxUint64-1, func(r Record) error {
		ns = max(ns, seenNs(r.Data))
		if records == 0 {
			f.seq, f.ns = r.Seq, ns
		}
		records, last = records+1, r.Seq
		return nil
	})
	if err == nil && records > 0 {
		t.index.add(f, records, last, ns)
	}
	return size, err
}

// zstdFrameSize finds a frame's end by its block headers (RFC 8878, 3.1.1.2), since its header does not say.
func zstdFrameSize(r io.ReaderAt, off, end int64) (int64, error) {
	head := make([]byte, min(zstd.HeaderMaxSize, end-off))
	if _, err := r.ReadAt(head, off); err != nil {
		return 0, err
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return 0, err
	}
	pos, block := off+int64(h.HeaderSize), make([]byte, 3)
	for last := false; !last; {
		if end-pos < 3 {
			return 0, io.ErrUnexpectedEOF
		}
		if _, err := r.ReadAt(block, pos); err != nil {
			return 0, err
		}
		b := uint32(block[0]) | uint32(block[1])<<8 | uint32(block[2])<<16
		n := int64(b >> 3)
		if b>>1&3 == 1 { // run length: one byte stands for n
			n = 1
		}
		pos += 3 + n
		last = b&1 == 1
		if pos-off > maxStored {
			return 0, fmt.Errorf("frame of more than %d bytes", maxStored)
		}
	}
	if h.HasCheckSum {
		pos += 4
	}
	if pos > end {
		return 0, io.ErrUnexpectedEOF
	}
	return pos - off, nil
}
