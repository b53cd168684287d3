package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// removeEmptyBlocks removes message blocks of no bytes, which a crash or a bad disk leaves, and returns their
// names, and whether one was the oldest. They hold nothing, and a server that meets one no longer keeps the stream's
// limits.
func removeEmptyBlocks(dir string) (empty []string, oldest bool, err error) {
	all, err := blocks(blocksOf(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	byAge := func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) } // 2.blk, 10.blk
	for i, name := range slices.SortedFunc(maps.Keys(all), byAge) {
		if all[name].size > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(blocksOf(dir), name)); err != nil {
			return nil, false, fmt.Errorf("remove empty block: %w", err)
		}
		empty, oldest = append(empty, name), oldest || i == 0
	}
	return empty, oldest, nil
}

// sayEmptyBlocks says what the oldest block may have held. What a newer one held is a hole between positions, which
// readers are told of.
func (w *writer) sayEmptyBlocks(empty []string, info *jetstream.StreamInfo, oldest bool) {
	w.log.Warn("removed empty blocks of the journal", "blocks", empty)
	if !oldest {
		return
	}
	g := &eventpb.Gap{FromNs: info.Created.UnixNano(), Detail: "journal found its oldest block empty on the disk: " + empty[0]}
	if info.State.Msgs > 0 {
		g.ToNs = info.State.FirstTime.UnixNano()
	}
	w.pending = append(w.pending, pending{item: w.gap(false, g)})
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
