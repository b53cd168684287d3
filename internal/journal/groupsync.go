package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// blocksOf is where the embedded server keeps the stream's messages. Acknowledged messages are in these files'
// pages; TestBlocksFolder holds that it is so.
func blocksOf(dir string) string {
	return filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", streamName, "msgs")
}

// groupSync syncs a whole window at once. The server's own way of syncing always is one sync for each message,
// and its transactions cost a dozen syncs each: both are many times slower.
type groupSync struct {
	folder string
	synced map[string]blockState
}

type blockState struct {
	size int64
	mod  time.Time
}

func newGroupSync(dir string) *groupSync {
	return &groupSync{folder: blocksOf(dir), synced: map[string]blockState{}}
}

// sync returns when what was written before is on the disk.
func (g *groupSync) sync() error {
	now, err := blocks(g.folder)
	if err != nil {
		return err
	}
	added := false
	for name, state := range now {
		old, known := g.synced[name]
		if known && old == state {
			continue
		}
		if err := syncFile(filepath.Join(g.folder, name)); err != nil {
			return fmt.Errorf("sync block: %w", err)
		}
		added = added || !known
	}
	if added {
		if err := syncDir(g.folder); err != nil {
			return fmt.Errorf("sync blocks folder: %w", err)
		}
	}
	g.synced = now
	return nil
}

// blocks lists the message blocks. One that is retired meanwhile is left out.
func blocks(folder string) (map[string]blockState, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list blocks: %w", err)
	}
	found := make(map[string]blockState, len(entries))
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".blk" {
			continue
		}
		if info, err := e.Info(); err == nil {
			found[e.Name()] = blockState{info.Size(), info.ModTime()}
		} else if !os.IsNotExist(err) {
			return nil, fmt.Errorf("look at block: %w", err)
		}
	}
	return found, nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
