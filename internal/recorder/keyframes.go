package recorder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"github.com/tapedeck-io/tapedeck/internal/projections"
	"google.golang.org/protobuf/proto"
)

// keyframes are the States that a recorder keeps in its session's folder. They make it start fast, and they are what
// is left of events that the journal has retired. Without them the journal is folded from its start.
type keyframes struct {
	dir     string
	journal *journal.Journal
	log     *slog.Logger
}

const keyframeSuffix = ".keyframe"

func keyframesOf(session string, j *journal.Journal, log *slog.Logger) keyframes {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return keyframes{filepath.Join(session, "keyframes"), j, log}
}

func (k keyframes) path(seq uint64) string {
	return filepath.Join(k.dir, fmt.Sprintf("%020d%s", seq, keyframeSuffix))
}

// list returns the positions, ascending.
func (k keyframes) list() []uint64 {
	entries, err := os.ReadDir(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.log.Warn("keyframes cannot be read", "error", err)
	}
	var all []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), keyframeSuffix)
		if seq, err := strconv.ParseUint(name, 10, 64); ok && err == nil {
			all = append(all, seq)
		}
	}
	slices.Sort(all)
	return all
}

// save writes a State in its encoded form; eventID is that of the event at seq.
func (k keyframes) save(seq uint64, eventID string, state []byte) error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("make keyframes folder: %w", err)
	}
	m := &eventpb.TapeKeyframe{Seq: seq, FoldVersion: projections.FoldVersion, Journal: k.journal.Identity(), EventId: eventID}
	if err := journal.WriteKeyframe(k.path(seq), m, state); err != nil {
		return err
	}
	return k.prune()
}

// prune removes those of which the journal does not have the next event any more, or not yet.
func (k keyframes) prune() error {
	first, last, err := k.journal.Bounds()
	if err != nil {
		return err
	}
	for _, seq := range k.list() {
		if seq+1 < first || seq > last {
			err = errors.Join(err, os.Remove(k.path(seq)))
		}
	}
	return err
}

// newest returns the last State that can be used; nil when there is none.
func (k keyframes) newest(ctx context.Context) *projections.State {
	for _, seq := range slices.Backward(k.list()) {
		if s := k.load(ctx, seq); s != nil {
			return s
		}
	}
	return nil
}

// oldest returns the first State from position least on; nil when there is none.
func (k keyframes) oldest(ctx context.Context, least uint64) *projections.State {
	for _, seq := range k.list() {
		if seq < least {
			continue
		}
		if s := k.load(ctx, seq); s != nil {
			return s
		}
	}
	return nil
}

// load returns nil for a keyframe that cannot be used, and says why.
func (k keyframes) load(ctx context.Context, seq uint64) *projections.State {
	m, b, err := journal.ReadKeyframe(k.path(seq))
	if err == nil {
		err = k.belongs(ctx, m, seq)
	}
	var s *projections.State
	if err == nil {
		s, err = projections.UnmarshalState(b)
	}
	if err == nil && s.Seq != seq {
		err = fmt.Errorf("state of position %d", s.Seq)
	}
	if err != nil {
		k.log.Warn("keyframe is not used", "seq", seq, "error", err)
		return nil
	}
	return s
}

// belongs says whether the keyframe is of this journal: one that lost its tail in a power cut may have other events
// at the same positions since.
func (k keyframes) belongs(ctx context.Context, m *eventpb.TapeKeyframe, seq uint64) error {
	switch {
	case m.Seq != seq:
		return fmt.Errorf("it is of position %d", m.Seq)
	case m.FoldVersion != projections.FoldVersion:
		return fmt.Errorf("made by version %d of the fold, this is version %d", m.FoldVersion, projections.FoldVersion)
	case m.Journal != k.journal.Identity():
		return errors.New("it is of another journal")
	}
	first, last, err := k.journal.Bounds()
	if err != nil {
		return err
	}
	if seq > last {
		return errors.New("the journal ends before it")
	}
	if seq < first {
		return nil // its event is retired; a tail that was lost was not
	}
	return k.journal.Read(ctx, seq, seq, func(r journal.Record) error {
		if id, err := eventID(r); err != nil || id != m.EventId {
			return errors.Join(errors.New("the event at its position is another"), err)
		}
		return nil
	})
}

func eventID(r journal.Record) (string, error) {
	e := &eventpb.Event{}
	err := proto.Unmarshal(r.Data, e)
	return e.Id, err
}
