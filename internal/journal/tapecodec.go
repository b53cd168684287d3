package journal

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true),
		zstd.WithEncoderLevel(zstd.SpeedDefault))
}

// newDecoder decodes frames of events: it allocates no more than the largest frame, whatever the bytes say.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxFrame), zstd.WithDecoderMaxWindow(16<<20))
}

// inflateState decodes a keyframe's state as a stream, so that memory grows with what is there and not with what
// a length says.
func inflateState(packed []byte) ([]byte, error) {
	d, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxKeyframe), zstd.WithDecoderMaxWindow(16<<20))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var state bytes.Buffer
	var h zstd.Header
	if h.Decode(packed) == nil && h.HasFCS {
		// What a frame says of its size is believed as far as what is there makes it likely.
		state.Grow(int(min(h.FrameContentSize, uint64(len(packed))*16, maxKeyframe)) + bytes.MinRead)
	}
	n, err := io.Copy(&state, io.LimitReader(d, maxKeyframe+1))
	if err == nil && n > maxKeyframe {
		err = fmt.Errorf("more than %d bytes", maxKeyframe)
	}
	return state.Bytes(), err
}
