package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

const (
	// maxReached is how many programs a walk follows.
	maxReached = 4096
	// walkSlice is how long a look walks on. Arrays of programs cannot be read in batches, and Cilium's array of
	// policy programs has a slot for each of 65,536 endpoint ids, which takes a tenth of a second to read.
	walkSlice = 5 * time.Millisecond
)

// reach is the topic of what attached programs reach: programs through tail calls, and the maps of all of them. It is
// walked after the attached programs have changed, in slices. An array of programs is read again when other programs
// use it than before.
type reach struct {
	from *attachments

	complete bool // nothing is left to walk
	arrays   map[uint32]*progArray
	maps     map[uint32]usedMap
	visited  map[ebpf.ProgramID]bool // attached and reached ones

	reached    []*eventpb.ReachedProgram
	used       []*eventpb.UsedMap
	unreadable []string
}

// usedMap is what does not change while a map is there.
type usedMap struct {
	fact  *eventpb.UsedMap
	array bool // of programs
}

func newReach(a *attachments) *reach {
	return &reach{from: a, arrays: map[uint32]*progArray{}, maps: map[uint32]usedMap{}, visited: map[ebpf.ProgramID]bool{}}
}

// stir has the next looks walk anew.
func (r *reach) stir() { r.complete = false }

func (r *reach) every() time.Duration {
	if r.complete {
		return time.Hour
	}
	return 0
}

func (r *reach) look(_ context.Context, out *eventpb.HostState) error {
	if r.complete {
		return nil
	}
	w, err := r.walk(time.Now().Add(walkSlice))
	if errors.Is(err, errSlice) {
		maps.Copy(r.visited, w.seen) // what was read is not to be read again
		return nil
	}
	r.complete = true
	now, used, unreadable := w.facts(r, err)
	same := slices.EqualFunc(now, r.reached, equalReached) && slices.EqualFunc(used, r.used, equalUsed) && slices.Equal(unreadable, r.unreadable)
	r.reached, r.used, r.unreadable, r.visited = now, used, unreadable, w.seen
	maps.DeleteFunc(r.arrays, func(id uint32, _ *progArray) bool { return w.users[id] == nil })
	maps.DeleteFunc(r.maps, func(id uint32, _ usedMap) bool { return w.users[id] == nil })
	if !same {
		r.from.tell(out)
	}
	return nil
}

// errSlice ends a walk that has used up its slice; the next one finds what this one has read.
var errSlice = errors.New("more to walk")

// walk is one way through the programs, from the attached ones.
type walk struct {
	until time.Time
	seen  map[ebpf.ProgramID]bool
	users map[uint32][]ebpf.ProgramID // by map
	read  bool                        // something: each walk gets on, however short its slice
	cut   bool                        // there are programs beyond maxReached
}

// late says that the slice is used up, before something is to be read.
func (w *walk) late() bool {
	late := w.read && time.Now().After(w.until)
	w.read = true
	return late
}

// walk goes through the programs until every array has been read for the programs that use it now.
func (r *reach) walk(until time.Time) (*walk, error) {
	for {
		w := &walk{until: until, seen: map[ebpf.ProgramID]bool{}, users: map[uint32][]ebpf.ProgramID{}}
		if err := r.visit(w); err != nil {
			return w, err
		}
		stale := r.stale(w)
		if len(stale) == 0 {
			return w, nil
		}
		for _, a := range stale {
			if err := a.read(w.until); err != nil {
				return w, err
			}
		}
	}
}

// visit follows the arrays as far as they have been read.
func (r *reach) visit(w *walk) error {
	var queue []ebpf.ProgramID
	for _, a := range r.from.last.GetAttachments() {
		queue = append(queue, ebpf.ProgramID(a.ProgramId))
	}
	attached := len(queue)
	for n := 0; n < len(queue); n++ {
		id := queue[n]
		if w.seen[id] {
			continue
		}
		if n >= attached && len(w.seen) >= attached+maxReached {
			w.cut = true
			break
		}
		w.seen[id] = true
		if _, known := r.from.programs.known[id]; !known && w.late() {
			return errSlice
		}
		p, err := r.from.programs.get(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range p.maps {
			w.users[m] = append(w.users[m], id)
			a, err := r.array(m)
			if err != nil {
				return err
			}
			if a != nil && len(w.users[m]) == 1 {
				queue = append(queue, a.programs()...)
			}
		}
	}
	return nil
}

// array returns what is known of a map that is an array of programs, nil for another one.
func (r *reach) array(id uint32) (*progArray, error) {
	m, ok := r.maps[id]
	if !ok {
		var err error
		if m, err = readMap(id); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		r.maps[id] = m
		if m.array {
			r.arrays[id] = &progArray{id: id, size: m.fact.MaxEntries}
		}
	}
	return r.arrays[id], nil
}

// stale are the arrays that are to be read, those with few slots first. One that other programs use than before is
// read from its start.
func (r *reach) stale(w *walk) (list []*progArray) {
	for id, a := range r.arrays {
		users := w.users[id]
		if users == nil {
			continue
		}
		slices.Sort(users)
		if !slices.Equal(users, a.users) {
			a.users, a.next = users, 0
		}
		if a.next < a.size {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *progArray) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.id, b.id)) })
	return list
}

// facts are what a walk has found, in order of id.
func (w *walk) facts(r *reach, err error) (reached []*eventpb.ReachedProgram, used []*eventpb.UsedMap, unreadable []string) {
	attached := map[uint32]bool{}
	for _, a := range r.from.last.GetAttachments() {
		attached[a.ProgramId] = true
	}
	for _, id := range slices.Sorted(maps.Keys(w.seen)) {
		if p, ok := r.from.programs.known[id]; ok && !attached[uint32(id)] {
			reached = append(reached, &eventpb.ReachedProgram{ProgramId: uint32(id), Program: p.name, MapIds: p.maps})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.users)) {
		if m, ok := r.maps[id]; ok {
			used = append(used, m.fact)
		}
	}
	if err != nil {
		unreadable = append(unreadable, "tail calls: "+rootCause(err).Error())
	}
	if w.cut {
		unreadable = append(unreadable, fmt.Sprintf("tail calls: not followed beyond %d programs", maxReached))
	}
	return reached, used, unreadable
}

func equalReached(a, b *eventpb.ReachedProgram) bool {
	return a.ProgramId == b.ProgramId && a.Program == b.Program && slices.Equal(a.MapIds, b.MapIds)
}

func equalUsed(a, b *eventpb.UsedMap) bool { return a.Id == b.Id && a.Name == b.Name }
