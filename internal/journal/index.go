package journal

import (
	"errors"
	"sort"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// index says where a tape's frames are.
type index struct {
	frames    []frameAt
	keyframes []keyframeAt
	records   uint64
	lastSeq   uint64
	lastNs    int64 // the latest seen_ns
	sha256    []byte
}

type frameAt struct {
	seq    uint64
	ns     int64 // the latest seen_ns of what is before the frame and of its first event: it never goes back
	offset int64
	size   int64
}

type keyframeAt struct {
	seq    uint64
	offset int64
}

func (x *index) message() *eventpb.TapeIndex {
	m := &eventpb.TapeIndex{Records: x.records, LastSeq: x.lastSeq, LastNs: x.lastNs, Sha256: x.sha256}
	var last frameAt
	for _, f := range x.frames {
		m.FrameSeq = append(m.FrameSeq, f.seq-last.seq)
		m.FrameNs = append(m.FrameNs, uint64(f.ns-last.ns))
		m.FrameOffset = append(m.FrameOffset, uint64(f.offset-last.offset))
		m.FrameSize = append(m.FrameSize, uint64(f.size))
		last = f
	}
	var lastKey keyframeAt
	for _, k := range x.keyframes {
		m.KeyframeSeq = append(m.KeyframeSeq, k.seq-lastKey.seq)
		m.KeyframeOffset = append(m.KeyframeOffset, uint64(k.offset-lastKey.offset))
		lastKey = k
	}
	return m
}

var errIndex = errors.New("index contradicts itself")

// indexOf checks a TapeIndex of a file whose index frame is at end: everything lies before that, in order.
func indexOf(m *eventpb.TapeIndex, end int64) (*index, error) {
	n, nk := len(m.FrameSeq), len(m.KeyframeSeq)
	if len(m.FrameNs) != n || len(m.FrameOffset) != n || len(m.FrameSize) != n || len(m.KeyframeOffset) != nk {
		return nil, errIndex
	}
	x := &index{
		frames: make([]frameAt, 0, n), keyframes: make([]keyframeAt, 0, nk),
		records: m.Records, lastSeq: m.LastSeq, lastNs: m.LastNs, sha256: m.Sha256,
	}
	var f frameAt
	for i := range n {
		next := frameAt{f.seq + m.FrameSeq[i], f.ns + int64(m.FrameNs[i]), f.offset + int64(m.FrameOffset[i]), int64(m.FrameSize[i])}
		if next.seq <= f.seq || i > 0 && next.ns < f.ns || next.offset < f.offset+f.size || !fits(next.offset, next.size, end) {
			return nil, errIndex
		}
		f = next
		x.frames = append(x.frames, f)
	}
	if n > 0 && m.LastSeq < f.seq {
		return nil, errIndex
	}
	var k keyframeAt
	for i := range nk {
		next := keyframeAt{k.seq + m.KeyframeSeq[i], k.offset + int64(m.KeyframeOffset[i])}
		if i > 0 && next.seq < k.seq || next.offset <= k.offset || next.offset >= end {
			return nil, errIndex
		}
		k = next
		x.keyframes = append(x.keyframes, k)
	}
	return x, nil
}

func fits(offset, size, end int64) bool {
	return offset > 0 && size > 0 && size <= maxStored && offset <= end-size
}

func (x *index) bounds() (first, last uint64) {
	if len(x.frames) == 0 {
		return 1, 0
	}
	return x.frames[0].seq, x.lastSeq
}

// frameOf is the index of the last frame that starts at or before seq; the first frame for a seq before all.
func (x *index) frameOf(seq uint64) int {
	i := sort.Search(len(x.frames), func(i int) bool { return x.frames[i].seq > seq })
	return max(i-1, 0)
}

// frameAt is the index of the last frame whose first event was seen at or before ns; -1 when none was.
func (x *index) frameAt(ns int64) int {
	return sort.Search(len(x.frames), func(i int) bool { return x.frames[i].ns > ns }) - 1
}

// keyframeOf is the last keyframe at or before seq.
func (x *index) keyframeOf(seq uint64) (keyframeAt, bool) {
	i := sort.Search(len(x.keyframes), func(i int) bool { return x.keyframes[i].seq > seq })
	if i == 0 {
		return keyframeAt{}, false
	}
	return x.keyframes[i-1], true
}

// add notes a frame of which all records are known.
func (x *index) add(f frameAt, records int, lastSeq uint64, lastNs int64) {
	x.frames = append(x.frames, f)
	x.records += uint64(records)
	x.lastSeq, x.lastNs = lastSeq, lastNs
}
