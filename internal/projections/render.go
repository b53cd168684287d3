package projections

import (
	"slices"
	"time"
)

// Renderer renders State's files again and again, and makes anew only what changed.
type Renderer struct {
	made map[string]*rendered
	rows *rows
}

// rendered is a file as it was made last.
type rendered struct {
	seq    uint64 // State's position then
	at     time.Time
	cost   time.Duration
	data   []byte
	status fileStatus
}

// NewRenderer has rendered nothing yet.
func NewRenderer() *Renderer {
	return &Renderer{made: map[string]*rendered{}, rows: newRows()}
}

// spared is how much longer a large file stays as it is than it took to make: with thousands of Services, to follow
// every change at once would take a core.
const spared = 15

// Files returns every file at State's position, session.json last. State must be the same one each time, further on.
func (r *Renderer) Files(s *State) []File {
	files, _ := r.render(s, false)
	return files
}

// Live is Files, but what costs much is made anew only now and then. It says when a file that has changed is to be made,
// the zero time for none.
func (r *Renderer) Live(s *State) (files []File, next time.Time) { return r.render(s, true) }

func (r *Renderer) render(s *State, spare bool) (files []File, next time.Time) {
	var status []fileStatus
	for _, v := range Views {
		if v.Step > 0 && s.Profile == nil {
			continue
		}
		have := r.made[v.File]
		if have == nil || s.changedSince(have.seq, v.On) {
			if due, wait := have.due(); spare && wait {
				if next.IsZero() || due.Before(next) {
					next = due
				}
			} else {
				have = r.make(s, v)
			}
		}
		files = append(files, File{v.File, have.data})
		status = append(status, have.status)
	}
	return append(files, File{"session.json", encode(s.session(status))}), next
}

// due is when it is to be made again at the earliest; false for now.
func (f *rendered) due() (time.Time, bool) {
	if f == nil || f.cost < time.Millisecond {
		return time.Time{}, false
	}
	due := f.at.Add(spared * f.cost)
	return due, time.Now().Before(due)
}

func (r *Renderer) make(s *State, v View) *rendered {
	start := time.Now()
	w := &waits{s: s, rows: r.rows}
	value := v.Render(s, w)
	data := encode(value)
	made := &rendered{s.Seq, time.Now(), time.Since(start), data, w.status(v, value != nil)}
	r.made[v.File] = made
	return made
}

// changedSince says whether one of the topics changed after a position; of a file without topics that is not known.
func (s *State) changedSince(seq uint64, list []topic) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(t topic) bool { return s.touched.topics[t] > seq })
}
