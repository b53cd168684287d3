package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// Survey is what a reading of all of a tape found, the parts that are damaged beside those that are whole.
type Survey struct {
	Bytes     int64  // of the file, as far as it is whole: up to the index, or to where it is torn
	Format    uint32 // of the header
	SHA256    string // of those bytes, in hex
	Promised  string // what the index says it is; "" without an index
	Frames    int    // of events
	Keyframes int
	Records   uint64 // that could be read
	Indexed   uint64 // how many the index says there are
	// Damage lists what cannot be read or is not what was written, in the file's order.
	Damage []Damage
}

// Damage is one part of a tape that is not whole.
type Damage struct {
	Part     string // frame, keyframe or index
	Offset   int64
	From, To uint64 // of a frame: the positions that are in it, by the index
	Err      error
}

// Survey reads everything and calls fn with each record that can be read; it goes on behind what is damaged. Its own
// error is one of reading the file, the context's, or fn's.
func (t *Tape) Survey(ctx context.Context, fn func(Record) error) (*Survey, error) {
	s := &Survey{Bytes: t.end, Frames: len(t.index.frames), Keyframes: len(t.index.keyframes), Indexed: t.index.records}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(t.in, 0, t.end)); err != nil {
		return nil, fmt.Errorf("read tape: %w", err)
	}
	s.SHA256, s.Promised = hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(t.index.sha256)
	header, err := readSection(t.in, 0, t.end, frameHeader, nameHeader, maxHeader, 0)
	if err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	s.Format = header.version
	if err := t.surveyFrames(ctx, s, fn); err != nil {
		return nil, err
	}
	for _, k := range t.index.keyframes {
		if err := t.checkKeyframe(k); err != nil {
			s.Damage = append(s.Damage, Damage{Part: "keyframe", Offset: k.offset, From: k.seq, To: k.seq, Err: err})
		}
	}
	if t.torn == nil {
		t.surveyIndex(s)
	}
	return s, nil
}

func (t *Tape) surveyFrames(ctx context.Context, s *Survey, fn func(Record) error) error {
	for i, f := range t.index.frames {
		if err := ctx.Err(); err != nil {
			return err
		}
		last := t.index.lastSeq
		if i+1 < len(t.index.frames) {
			last = t.index.frames[i+1].seq - 1
		}
		raw, err := t.decode(f.offset, f.size)
		var told error
		if err == nil {
			err = eachRecord(raw, f.seq, last, func(r Record) error {
				s.Records++
				told = fn(r)
				return told
			})
		}
		if told != nil {
			return told
		}
		if err != nil {
			s.Damage = append(s.Damage, Damage{"frame", f.offset, f.seq, last, err})
		}
	}
	return nil
}

func (t *Tape) checkKeyframe(k keyframeAt) error {
	m, _, err := t.readKeyframe(k.offset)
	if err != nil {
		return err
	}
	if m.Seq != k.seq {
		return fmt.Errorf("of position %d, not %d", m.Seq, k.seq)
	}
	_, err = inflateState(m.State)
	return err
}

// surveyIndex checks what neither the index's own checksum nor the SHA-256 covers: the format that it claims.
func (t *Tape) surveyIndex(s *Survey) {
	head := make([]byte, skipHead+sectionHead)
	_, err := t.in.ReadAt(head, t.end)
	if err == nil {
		if v := uint32(head[16]) | uint32(head[17])<<8 | uint32(head[18])<<16 | uint32(head[19])<<24; v != s.Format {
			err = fmt.Errorf("of format %d in a tape of format %d", v, s.Format)
		}
	}
	if err != nil {
		s.Damage = append(s.Damage, Damage{Part: "index", Offset: t.end, Err: err})
	}
}
