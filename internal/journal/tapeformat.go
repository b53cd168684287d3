package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The tape's format; SPEC.md describes it.
const (
	tapeVersion = 1

	frameHeader   = 0x184D2A50 // skippable frames, told apart by the lowest nibble
	frameKeyframe = 0x184D2A51
	frameIndex    = 0x184D2A52
	frameZstd     = 0xFD2FB528

	nameHeader   = "TAPEDECK"
	nameKeyframe = "KEYFRAME"
	nameIndex    = "TAPEINDX"
	nameTrailer  = "TAPE-END"

	skipHead    = 8 // magic and size
	sectionHead = 16
	trailerSize = 24

	frameTarget   = 256 << 10
	maxFrame      = maxPayload + 64
	maxStored     = maxFrame + maxFrame>>7 + 1<<10 // of a frame that cannot be compressed
	maxHeader     = 1 << 20
	maxIndex      = 16 << 20
	maxKeyframe   = 256 << 20
	maxKeyframeIn = maxKeyframe + maxKeyframe>>7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// skippable is a section in its frame. tail stands behind the payload, outside its checksum.
func skippable(magic uint32, name string, payload, tail []byte) []byte {
	b := make([]byte, 0, skipHead+sectionHead+len(payload)+len(tail))
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = binary.LittleEndian.AppendUint32(b, uint32(sectionHead+len(payload)+len(tail)))
	b = append(b, name...)
	b = binary.LittleEndian.AppendUint32(b, tapeVersion)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	b = append(b, payload...)
	return append(b, tail...)
}

// section is a skippable frame as read.
type section struct {
	version uint32
	payload []byte
	size    int64 // of the whole frame
}

var errChecksum = errors.New("checksum does not match")

// readSection reads the frame at off, which must have the magic and name and end before end. A checksum that does
// not match is reported beside the section.
func readSection(r io.ReaderAt, off, end int64, magic uint32, name string, most, tail int64) (section, error) {
	head := make([]byte, skipHead+sectionHead)
	if end-off < int64(len(head)) {
		return section{}, io.ErrUnexpectedEOF
	}
	if _, err := r.ReadAt(head, off); err != nil {
		return section{}, err
	}
	size := int64(binary.LittleEndian.Uint32(head[4:]))
	n := size - sectionHead - tail
	switch {
	case binary.LittleEndian.Uint32(head) != magic || string(head[skipHead:skipHead+8]) != name:
		return section{}, fmt.Errorf("no %s section", name)
	case n < 0 || n > most:
		return section{}, fmt.Errorf("%s section of %d bytes", name, size)
	case size > end-off-skipHead:
		return section{}, io.ErrUnexpectedEOF
	}
	s := section{
		version: binary.LittleEndian.Uint32(head[16:]),
		payload: make([]byte, n),
		size:    skipHead + size,
	}
	if _, err := r.ReadAt(s.payload, off+int64(len(head))); err != nil {
		return section{}, err
	}
	if crc32.Checksum(s.payload, castagnoli) != binary.LittleEndian.Uint32(head[20:]) {
		return s, errChecksum
	}
	return s, nil
}

func trailer(indexOffset int64, payload int) []byte {
	b := make([]byte, 0, trailerSize)
	b = binary.LittleEndian.AppendUint64(b, uint64(indexOffset))
	b = binary.LittleEndian.AppendUint32(b, uint32(payload))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, nameTrailer...)
}

// readTrailer returns the offset of the index frame of a file of size bytes.
func readTrailer(r io.ReaderAt, size int64) (int64, error) {
	if size < trailerSize {
		return 0, io.ErrUnexpectedEOF
	}
	b := make([]byte, trailerSize)
	if _, err := r.ReadAt(b, size-trailerSize); err != nil {
		return 0, err
	}
	off := binary.LittleEndian.Uint64(b)
	n := int64(binary.LittleEndian.Uint32(b[8:]))
	switch {
	case string(b[16:]) != nameTrailer:
		return 0, errors.New("no trailer")
	case crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]):
		return 0, fmt.Errorf("trailer: %w", errChecksum)
	case off > uint64(size) || int64(off)+skipHead+sectionHead+n+trailerSize != size:
		return 0, errors.New("trailer does not fit the file")
	}
	return int64(off), nil
}
