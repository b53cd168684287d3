package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"golang.org/x/sys/unix"
)

// progArray is what has been read of an array of programs, through which programs call each other.
type progArray struct {
	id, size uint32
	next     uint32 // the slots before it have been read
	slots    map[uint32]ebpf.ProgramID
	users    []ebpf.ProgramID // for which it is read, ascending
}

// programs are those in the slots, by slot.
func (a *progArray) programs() (list []ebpf.ProgramID) {
	for _, slot := range slices.Sorted(maps.Keys(a.slots)) {
		list = append(list, a.slots[slot])
	}
	return list
}

// read goes on reading slots, to the end or, with errSlice, until a moment. An array that is gone has none.
func (a *progArray) read(until time.Time) error {
	m, err := openMap(a.id)
	if errors.Is(err, fs.ErrNotExist) {
		a.next, a.slots = a.size, nil
		return nil
	}
	if err != nil {
		return err
	}
	defer m.Close()
	if a.slots == nil {
		a.slots = map[uint32]ebpf.ProgramID{}
	}
	for a.next < a.size {
		var program uint32
		switch err := m.Lookup(a.next, &program); {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			delete(a.slots, a.next)
		case err != nil:
			return fmt.Errorf("read slot %d of map %d: %w", a.next, a.id, err)
		default:
			a.slots[a.next] = ebpf.ProgramID(program)
		}
		a.next++
		if a.next < a.size && a.next%64 == 0 && time.Now().After(until) {
			return errSlice
		}
	}
	return nil
}

func readMap(id uint32) (usedMap, error) {
	m, err := openMap(id)
	if err != nil {
		return usedMap{}, err
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		return usedMap{}, fmt.Errorf("read map %d: %w", id, err)
	}
	return usedMap{&eventpb.UsedMap{Id: id, Name: info.Name, MaxEntries: info.MaxEntries}, info.Type == ebpf.ProgramArray}, nil
}

// openMap opens a map by its id for reading only, which ebpf does for pinned maps alone. To open and close an array
// of programs does not empty it, as long as another holds it: one that nobody held would be empty already.
func openMap(id uint32) (*ebpf.Map, error) {
	attr := struct{ id, next, flags uint32 }{id: id, flags: unix.BPF_F_RDONLY}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_GET_FD_BY_ID, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return nil, fmt.Errorf("open map %d: %w", id, errno)
	}
	return ebpf.NewMapFromFD(int(fd))
}
