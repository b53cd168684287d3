package projections

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoFile says that there is never a file of that name.
var ErrNoFile = errors.New("no such file")

// File renders one file. Its error says why there is none: ErrNoFile for a name that is no file's, else what it
// waits for.
func (s *State) File(name string) ([]byte, error) {
	var names []string
	for _, f := range s.Files() {
		switch {
		case f.Name != name:
			names = append(names, f.Name)
		case f.Data != nil:
			return f.Data, nil
		default:
			return nil, fmt.Errorf("%s is not there at seq:%d: it waits for %s", name, s.Seq, strings.Join(s.waitsFor(name), ", "))
		}
	}
	for _, v := range Views {
		if v.File == name {
			return nil, fmt.Errorf("%s is not there at seq:%d: no profile is known yet", name, s.Seq)
		}
	}
	return nil, fmt.Errorf("%w: %s; there are %s", ErrNoFile, name, strings.Join(names, ", "))
}

func (s *State) waitsFor(name string) []string {
	for _, v := range Views {
		if v.File == name {
			w := &waits{s: s}
			v.Render(s, w)
			return w.missing
		}
	}
	return nil
}
