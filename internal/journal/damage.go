package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// removeEmptyBlocks removes message blocks of no bytes, which a crash or a bad disk leaves, and returns their
// names. They hold nothing, and a server that meets one no longer keeps the stream's limits.
func removeEmptyBlocks(dir string) ([]string, error) {
	all, err := blocks(blocksOf(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var empty []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].size > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(blocksOf(dir), name)); err != nil {
			return nil, fmt.Errorf("remove empty block: %w", err)
		}
		empty = append(empty, name)
	}
	return empty, nil
}

// sayEmptyBlocks makes what is missing a gap, where something is: the newest block may be empty by right.
func (w *writer) sayEmptyBlocks(empty []string, state jetstream.StreamState) {
	lost := uint64(state.NumDeleted)
	w.log.Warn("removed empty blocks of the journal", "blocks", empty, "events", lost)
	if lost > 0 {
		detail := "journal found empty blocks on the disk: " + strings.Join(empty, " ")
		g := &eventpb.Gap{FromNs: state.FirstTime.UnixNano(), Count: lost, Detail: detail}
		w.pending = append(w.pending, pending{item: w.gap(false, g)})
	}
}

const tryBytes = 1 << 20

// tryDisk writes and syncs some bytes, to know whether the disk takes them: the server gives no answer when it
// does not.
func tryDisk(dir string) error {
	f, err := os.CreateTemp(dir, ".try.*")
	if err != nil {
		return fmt.Errorf("write to the session folder: %w", bare(err))
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, tryBytes))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write to the session folder: %w", bare(err))
	}
	return nil
}

// bare leaves out the name of a file that nobody knows.
func bare(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
