package projections

import (
	"maps"
	"slices"
)

// session.json: what is shown, up to where, and how the sources are.
type sessionFile struct {
	Session string       `json:"session"`
	Node    string       `json:"node"`
	Profile *string      `json:"profile"`
	Seq     uint64       `json:"seq"`
	AsOf    *string      `json:"as_of"`
	Files   []fileStatus `json:"files"`
	Sources []sourceRow  `json:"sources"`
}

type sourceRow struct {
	Source  string  `json:"source"`
	Status  string  `json:"status"` // starting, up, down, stopped
	Since   *string `json:"since"`
	Error   *string `json:"error"`
	Events  uint64  `json:"events"`
	Gaps    uint64  `json:"gaps"`
	LastGap *gapRow `json:"last_gap"`
}

type gapRow struct {
	From   *string `json:"from"`
	To     *string `json:"to"`
	Reason string  `json:"reason"`
	Count  *uint64 `json:"count"`
	Detail string  `json:"detail"`
}

func (s *State) session(files []fileStatus) sessionFile {
	f := sessionFile{Session: s.Session, Node: s.Node, Seq: s.Seq, AsOf: stamp(s.SeenNs), Files: files, Sources: []sourceRow{}}
	if f.Files == nil {
		f.Files = []fileStatus{}
	}
	if s.Profile != nil {
		f.Profile = &s.Profile.Name
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		f.Sources = append(f.Sources, s.Sources[name].row(name))
	}
	return f
}

func (src *Source) row(name string) sourceRow {
	r := sourceRow{Source: name, Status: src.Status(), Since: stamp(src.SinceNs), Events: src.Events, Gaps: src.Gaps}
	if src.Error != "" {
		r.Error = &src.Error
	}
	if g := src.LastGap; g != nil {
		r.LastGap = &gapRow{From: stamp(g.FromNs), To: stamp(g.ToNs), Reason: lower(g.Reason, "GAP_REASON_"), Detail: g.Detail}
		if g.Count > 0 {
			r.LastGap.Count = &g.Count
		}
	}
	return r
}

// Status is starting, up, down, stopped, or unspecified for one that has said nothing of itself.
func (src *Source) Status() string { return lower(src.State, "SOURCE_STATE_") }
