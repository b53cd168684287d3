package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

// Tape is a tape open for reading. Its methods may be called at the same time.
type Tape struct {
	name   string
	in     io.ReaderAt
	file   *os.File // nil when in is another's
	end    int64    // of what is whole: the index frame's offset, or where the tape is torn
	header *eventpb.TapeHeader
	index  *index
	dec    *zstd.Decoder
	torn   error
}

var _ Reader = (*Tape)(nil)

// OpenTape opens the tape at path. An *events.Trouble that wraps ErrForeign, ErrNewer or ErrTorn says why it cannot
// be read at all. One that is only cut off opens up to its last whole frame; ask Torn.
func OpenTape(path string) (*Tape, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open tape: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open tape: %w", err)
	}
	t, err := ReadTape(f, info.Size(), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	t.file = f
	return t, nil
}

// ReadTape opens a tape of size bytes in r, as OpenTape does; name stands in its errors.
func ReadTape(r io.ReaderAt, size int64, name string) (*Tape, error) {
	t := &Tape{name: name, in: r, end: size}
	body, err := t.readHeader(size)
	if err != nil {
		return nil, err
	}
	if t.dec, err = newDecoder(); err != nil {
		return nil, fmt.Errorf("make decoder: %w", err)
	}
	if err := t.readIndex(size); err != nil {
		t.walk(body, err)
	}
	return t, nil
}

// readHeader returns where what follows the header starts.
func (t *Tape) readHeader(size int64) (int64, error) {
	s, err := readSection(t.in, 0, size, frameHeader, nameHeader, maxHeader, 0)
	switch {
	case s.version > tapeVersion:
		return 0, t.newer(s)
	case errors.Is(err, io.ErrUnexpectedEOF) && t.startsLikeTape(size):
		return 0, t.trouble(fmt.Errorf("%w: cut off within its header", ErrTorn), "pack the session again")
	case errors.Is(err, errChecksum):
		return 0, t.trouble(fmt.Errorf("%w: header: %w", ErrDamaged, err), "use another copy, or pack the session again")
	case err != nil || s.version == 0:
		return 0, t.trouble(ErrForeign, "give a file that recorder pack wrote")
	}
	t.header = &eventpb.TapeHeader{}
	if err := proto.Unmarshal(s.payload, t.header); err != nil {
		return 0, t.trouble(fmt.Errorf("%w: header: %w", ErrDamaged, err), "use another copy, or pack the session again")
	}
	return s.size, nil
}

func (t *Tape) startsLikeTape(size int64) bool {
	want := skippable(frameHeader, nameHeader, nil, nil)[skipHead : skipHead+8]
	b := make([]byte, min(size, skipHead+8))
	if _, err := t.in.ReadAt(b, 0); err != nil && err != io.EOF {
		return false
	}
	return len(b) > skipHead && string(b[skipHead:]) == string(want[:len(b)-skipHead])
}

func (t *Tape) newer(s section) error {
	h, by := &eventpb.TapeHeader{}, ""
	if proto.Unmarshal(s.payload, h) == nil && h.ToolVersion != "" {
		by = ", written by version " + h.ToolVersion
	}
	cause := fmt.Errorf("%w: format %d%s; this program reads up to format %d", ErrNewer, s.version, by, tapeVersion)
	return t.trouble(cause, fmt.Sprintf("use a replay that reads format %d", s.version))
}

func (t *Tape) trouble(cause error, mend string) error {
	return &events.Trouble{Thing: "tape " + t.name, Cause: cause, Mend: mend}
}

func (t *Tape) readIndex(size int64) error {
	off, err := readTrailer(t.in, size)
	if err != nil {
		return err
	}
	s, err := readSection(t.in, off, size, frameIndex, nameIndex, maxIndex, trailerSize)
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	m := &eventpb.TapeIndex{}
	if err := proto.Unmarshal(s.payload, m); err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	if t.index, err = indexOf(m, off); err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	t.end = off
	return nil
}

// Header is what the tape says of itself; it must not be changed. Of a torn tape, its last position and time tell
// what is missing.
func (t *Tape) Header() *eventpb.TapeHeader { return t.header }

// Bounds returns the first and the last position; last < first when the tape has no record.
func (t *Tape) Bounds() (first, last uint64, err error) {
	first, last = t.index.bounds()
	return first, last, nil
}

// Records is how many records there are.
func (t *Tape) Records() uint64 { return t.index.records }

// Torn is nil for a whole tape. Else it is an *events.Trouble that wraps ErrTorn and says up to where it is whole.
func (t *Tape) Torn() error { return t.torn }

// Read calls fn with each record from position from to position to, both included; a to of 0 means the last.
// Part of the tape that is not what was written is an *events.Trouble that wraps ErrDamaged.
func (t *Tape) Read(ctx context.Context, from, to uint64, fn func(Record) error) error {
	if to == 0 {
		to = t.index.lastSeq
	}
	if from > to {
		return ctx.Err()
	}
	i := t.index.frameOf(from)
	// The next frame is decoded while the records of one are read.
	next := t.ahead(i, to)
	for ; next != nil; i++ {
		if err := ctx.Err(); err != nil {
			<-next
			return err
		}
		raw := <-next
		next = t.ahead(i+1, to)
		err := t.eachOf(i, raw, func(r Record) error {
			if r.Seq < from || r.Seq > to {
				return nil
			}
			return fn(r)
		})
		if err != nil {
			if next != nil {
				<-next
			}
			return err
		}
	}
	return nil
}

type decoded struct {
	raw []byte
	err error
}

// ahead decodes frame i in a goroutine, whose result must be received; nil when there is none up to position to.
func (t *Tape) ahead(i int, to uint64) <-chan decoded {
	if i >= len(t.index.frames) || t.index.frames[i].seq > to {
		return nil
	}
	c := make(chan decoded, 1)
	go func() {
		raw, err := t.decode(t.index.frames[i].offset, t.index.frames[i].size)
		c <- decoded{raw, err}
	}()
	return c
}

func (t *Tape) readFrame(i int, fn func(Record) error) error {
	raw, err := t.decode(t.index.frames[i].offset, t.index.frames[i].size)
	return t.eachOf(i, decoded{raw, err}, fn)
}

func (t *Tape) eachOf(i int, d decoded, fn func(Record) error) error {
	f, last := t.index.frames[i], t.index.lastSeq
	if i+1 < len(t.index.frames) {
		last = t.index.frames[i+1].seq - 1
	}
	err := d.err
	if err == nil {
		err = eachRecord(d.raw, f.seq, last, fn)
	}
	if errors.Is(err, ErrDamaged) {
		return t.trouble(fmt.Errorf("frame at byte %d: %w", f.offset, err), "use another copy, or pack the session again")
	}
	return err
}

// decode returns a frame's records in memory of their own, which records may be kept in.
func (t *Tape) decode(offset, size int64) ([]byte, error) {
	packed := make([]byte, size)
	if _, err := t.in.ReadAt(packed, offset); err != nil {
		return nil, fmt.Errorf("read tape: %w", err)
	}
	raw, err := t.dec.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return raw, nil
}

// Close gives the file back.
func (t *Tape) Close() error {
	t.dec.Close()
	if t.file != nil {
		return t.file.Close()
	}
	return nil
}
