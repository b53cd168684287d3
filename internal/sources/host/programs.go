package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// program is what does not change while a program is loaded.
type program struct {
	name string
	tag  string
	maps []uint32
}

// programs remembers programs by id: reading one takes a hundred times longer than asking where it is attached.
type programs struct{ known map[ebpf.ProgramID]program }

func newPrograms() *programs { return &programs{map[ebpf.ProgramID]program{}} }

func (p *programs) get(id ebpf.ProgramID) (program, error) {
	if known, ok := p.known[id]; ok {
		return known, nil
	}
	read, err := readProgram(id)
	if err == nil {
		p.known[id] = read
	}
	return read, err
}

// retain forgets the programs that are in none of the sets: an id can come again.
func (p *programs) retain(sets ...map[ebpf.ProgramID]bool) {
	maps.DeleteFunc(p.known, func(id ebpf.ProgramID, _ program) bool {
		return !slices.ContainsFunc(sets, func(s map[ebpf.ProgramID]bool) bool { return s[id] })
	})
}

// readProgram reads a program's facts. The kernel keeps 15 characters of a name; ebpf reads a longer one from the
// program's BTF.
func readProgram(id ebpf.ProgramID) (program, error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return program{}, fmt.Errorf("open program %d: %w", id, err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return program{}, fmt.Errorf("read program %d: %w", id, err)
	}
	read := program{name: info.Name, tag: info.Tag}
	ids, _ := info.MapIDs()
	for _, m := range ids {
		read.maps = append(read.maps, uint32(m))
	}
	return read, nil
}

// errQuery stands for what ebpf takes for a missing feature, which may be a missing right.
var errQuery = errors.New("not permitted, or a kernel older than 4.15")

// query asks which programs are attached at a hook, in the order in which they run. A hook that this kernel does
// not have, or a device that has just gone, has none.
func query(target int, attach ebpf.AttachType) ([]link.AttachedProgram, error) {
	found, err := link.QueryPrograms(link.QueryOptions{Target: target, Attach: attach})
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EINVAL):
		return nil, nil
	case errors.Is(err, ebpf.ErrNotSupported):
		return nil, errQuery
	case err != nil:
		return nil, err
	}
	return found.Programs, nil
}
