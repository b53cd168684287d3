package projections

import (
	"maps"
	"slices"
)

// rows are the encoded rows of services.json, each with the position at which what it is made of changed last.
type rows map[frontendKey]row

type row struct {
	rev  uint64
	data []byte
}

type servicesFile struct {
	Frontends []frontendFile `json:"frontends"`
}

type frontendFile struct {
	Frontend string `json:"frontend"`
}

func servicesView(s *State, w *waits) any {
	f := servicesFile{Frontends: []frontendFile{}}
	for _, k := range slices.SortedFunc(maps.Keys(s.LB.frontends), frontendKey.compare) {
		f.Frontends = append(f.Frontends, frontendFile{k.String()})
	}
	return f
}
