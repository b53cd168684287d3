package journal_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/journal/journaltest"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// frame makes a skippable frame with a section by the words of SPEC.md.
func frame(magic uint32, name string, payload, tail []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = binary.LittleEndian.AppendUint32(b, uint32(16+len(payload)+len(tail)))
	b = append(b, name...)
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return append(append(b, payload...), tail...)
}

func headerFrame() []byte { return frame(0x184D2A50, "TAPEDECK", nil, nil) }

// withIndex ends a tape with an index that may lie.
func withIndex(b []byte, x *eventpb.TapeIndex) []byte {
	payload, _ := proto.Marshal(x)
	tail := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(payload)))
	tail = binary.LittleEndian.AppendUint32(tail, crc32.Checksum(tail, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, frame(0x184D2A52, "TAPEINDX", payload, append(tail, "TAPE-END"...))...)
}

// bomb is a zstd frame of n zero bytes, streamed, so that its header does not tell the size.
func bomb(n int) []byte {
	var b bytes.Buffer
	w, _ := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	zeroes := make([]byte, 1<<20)
	for ; n > 0; n -= len(zeroes) {
		w.Write(zeroes)
	}
	w.Close()
	return b.Bytes()
}

// liar is a zstd frame that says it holds n bytes, and holds none.
func liar(n uint64) []byte {
	b := []byte{0x28, 0xB5, 0x2F, 0xFD, 0xE0} // single segment, content size of 8 bytes
	b = binary.LittleEndian.AppendUint64(b, n)
	return append(b, 1, 0, 0) // the last block, raw, empty
}

// sprawling is an event of as many empty deltas of maps as there is room for.
func sprawling() []byte {
	const maps, delta = 23, 1
	empty := protowire.AppendBytes(protowire.AppendTag(nil, delta, protowire.BytesType), nil)
	return protowire.AppendBytes(protowire.AppendTag(nil, maps, protowire.BytesType), bytes.Repeat(empty, (journal.MaxEvent-64)/len(empty)))
}

// readAll does with a tape what can be done with one, and returns how many records came.
func readAll(b []byte) (records int) {
	tape, err := journal.ReadTape(bytes.NewReader(b), int64(len(b)), "hostile.tape")
	if err != nil {
		return 0
	}
	defer tape.Close()
	ctx := context.Background()
	tape.Read(ctx, 0, 0, func(journal.Record) error { records++; return nil })
	tape.Keyframe(^uint64(0))
	tape.SeqAt(1)
	tape.Verify(ctx)
	return records
}

func TestHostileTapesTakeLittleMemory(t *testing.T) {
	index := func(frame []byte) *eventpb.TapeIndex {
		return &eventpb.TapeIndex{FrameSeq: []uint64{1}, FrameNs: []uint64{1}, FrameSize: []uint64{uint64(len(frame))},
			FrameOffset: []uint64{uint64(len(headerFrame()))}, LastSeq: 1}
	}
	keyframe := func(state []byte) []byte {
		payload, _ := proto.Marshal(&eventpb.TapeKeyframe{State: state})
		return frame(0x184D2A51, "KEYFRAME", payload, nil)
	}
	huge := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x184D2A51), 0xffffffff)
	bigHeader := append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x184D2A50), 0xfffffff0), "TAPEDECK\x01\x00\x00\x00"...)
	for name, b := range map[string][]byte{
		"bomb in a torn tape":        append(headerFrame(), bomb(1<<30)...),
		"bomb in an indexed tape":    withIndex(append(headerFrame(), bomb(1<<30)...), index(bomb(1<<30))),
		"frame that lies":            append(headerFrame(), liar(1<<40)...),
		"frame that lies, indexed":   withIndex(append(headerFrame(), liar(1<<40)...), index(liar(1<<40))),
		"frame that lies a little":   append(headerFrame(), liar(8<<20)...),
		"keyframe that lies":         append(headerFrame(), keyframe(liar(1<<40))...),
		"keyframe that lies less":    append(headerFrame(), keyframe(liar(200<<20))...),
		"section longer than file":   append(headerFrame(), huge...),
		"header longer than file":    bigHeader,
		"index past the file":        withIndex(headerFrame(), &eventpb.TapeIndex{FrameSeq: []uint64{1}, FrameNs: []uint64{1}, FrameOffset: []uint64{1 << 62}, FrameSize: []uint64{1 << 23}}),
		"index with negative sizes":  withIndex(headerFrame(), &eventpb.TapeIndex{FrameSeq: []uint64{1}, FrameNs: []uint64{1}, FrameOffset: []uint64{32}, FrameSize: []uint64{1 << 63}}),
		"index of uneven columns":    withIndex(headerFrame(), &eventpb.TapeIndex{FrameSeq: []uint64{1, 1}}),
		"record longer than a frame": append(headerFrame(), bomb(0)...),
		"event of empty parts":       tapeOf(t, [][]byte{sprawling()}),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			records := readAll(b)
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 64 || records != 0 {
				t.Errorf("%d MiB allocated, %d records", got, records)
			}
		})
	}
}

// An event that could not be read again is not stored either.
func TestSprawlingEventIsRefused(t *testing.T) {
	j, err := journal.Open(t.TempDir(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close(t.Context())
	e := &eventpb.Event{}
	if err := proto.Unmarshal(sprawling(), e); err != nil {
		t.Fatal(err)
	}
	if err := j.Emitter("bpfmap")(t.Context(), e); !errors.Is(err, journal.ErrTooBig) {
		t.Errorf("%v", err)
	}
}

// A keyframe's bomb is bounded by what a keyframe may hold, not by what it unpacks to.
func TestKeyframeBomb(t *testing.T) {
	payload, _ := proto.Marshal(&eventpb.TapeKeyframe{State: bomb(1 << 30)})
	b := append(headerFrame(), frame(0x184D2A51, "KEYFRAME", payload, nil)...)
	tape := openBytes(t, b)
	if _, _, state, ok, err := tape.Keyframe(9); err == nil || ok || state != nil {
		t.Errorf("a keyframe of 1 GiB came out: %v", ok)
	}
}

// FuzzTape: any bytes give an error or records in order, never a panic, and what they take of memory is bounded.
func FuzzTape(f *testing.F) {
	whole := tapeOf(f, journaltest.Events(12))
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(whole[:len(whole)/2])
	f.Add(append(headerFrame(), liar(1<<40)...))
	f.Add(withIndex(headerFrame(), &eventpb.TapeIndex{FrameSeq: []uint64{1}, FrameNs: []uint64{1}, FrameOffset: []uint64{40}, FrameSize: []uint64{9}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		tape, err := journal.ReadTape(bytes.NewReader(b), int64(len(b)), "fuzz.tape")
		if err != nil {
			return
		}
		defer tape.Close()
		var last uint64
		tape.Read(context.Background(), 0, 0, func(r journal.Record) error {
			if r.Seq <= last {
				t.Errorf("position %d after %d", r.Seq, last)
			}
			last = r.Seq
			return nil
		})
		tape.Keyframe(last)
		tape.SeqAt(journaltest.Start)
		tape.Verify(context.Background())
	})
}

// TestReleasedTapes reads what released versions wrote. These files are never made anew.
func TestReleasedTapes(t *testing.T) {
	b, err := os.ReadFile("testdata/format1.tape")
	if err != nil {
		t.Fatal(err)
	}
	tape, want, n := openBytes(t, b), journaltest.Events(120), 0
	if err := tape.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	err = tape.Read(t.Context(), 0, 0, func(r journal.Record) error {
		if !bytes.Equal(r.Data, want[n]) {
			t.Errorf("record %d is not as stored", r.Seq)
		}
		n++
		return nil
	})
	if err != nil || n != 120 {
		t.Errorf("%d records, %v", n, err)
	}
}
