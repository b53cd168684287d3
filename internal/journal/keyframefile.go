package journal

import (
	"fmt"
	"os"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// WriteKeyframe puts a keyframe into a file of its own, in the form that it has on a tape. k.State is set to state,
// compressed.
func WriteKeyframe(path string, k *eventpb.TapeKeyframe, state []byte) error {
	enc, err := newEncoder()
	if err != nil {
		return fmt.Errorf("make encoder: %w", err)
	}
	k.State = enc.EncodeAll(state, nil)
	payload, err := encode(k)
	if err == nil {
		err = replaceFile(path, skippable(frameKeyframe, nameKeyframe, payload, nil))
	}
	if err != nil {
		return fmt.Errorf("write keyframe: %w", err)
	}
	return enc.Close()
}

// ReadKeyframe reads such a file and returns the state decompressed. Its error wraps ErrDamaged when the file is not
// what was written.
func ReadKeyframe(path string) (k *eventpb.TapeKeyframe, state []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open keyframe: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("open keyframe: %w", err)
	}
	s, err := readSection(f, 0, info.Size(), frameKeyframe, nameKeyframe, maxKeyframeIn, 0)
	k = &eventpb.TapeKeyframe{}
	if err == nil {
		err = proto.Unmarshal(s.payload, k)
	}
	if err == nil {
		state, err = inflateState(k.State)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: keyframe %s: %w", ErrDamaged, path, err)
	}
	return k, state, nil
}
