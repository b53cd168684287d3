package projections

// findings.json: what is wrong, and what was.
type findingsFile struct {
	Open []findingRow `json:"open"`
	// Ended ones in order of their end; those before them are left out.
	Ended   []findingRow `json:"ended"`
	Omitted uint64       `json:"omitted"`
}

type findingRow struct {
	Rule    string   `json:"rule"`
	Level   string   `json:"level"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
	Means   string   `json:"means"`
	Since   *string  `json:"since"`
	Found   *string  `json:"found"`
	Ended   *string  `json:"ended"`
	Events  []uint64 `json:"events"`
}

func findingsView(s *State, _ *waits) any {
	f := findingsFile{Open: []findingRow{}, Ended: []findingRow{}, Omitted: s.book.dropped}
	for _, x := range s.Findings() {
		row := findingRow{x.Rule, x.Level(), x.Subject, x.Text, x.Means(), stamp(x.SinceNs), stamp(x.FoundNs), stamp(x.EndedNs), x.Events}
		if x.EndedNs == 0 {
			f.Open = append(f.Open, row)
		} else {
			f.Ended = append(f.Ended, row)
		}
	}
	return f
}
