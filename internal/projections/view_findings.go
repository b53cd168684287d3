package projections

// FindingsFile is findings.json: what is wrong, and what was.
type FindingsFile struct {
	Open []FindingRow `json:"open"`
	// Ended ones in order of their end; those before them are left out.
	Ended   []FindingRow `json:"ended"`
	Omitted uint64       `json:"omitted"`
}

// FindingRow is one finding.
type FindingRow struct {
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

func findingsView(s *State, _ *waits) any { return s.FindingsFile(s.Findings()) }

// FindingsFile makes the file of some of State's findings.
func (s *State) FindingsFile(list []*Finding) FindingsFile {
	f := FindingsFile{Open: []FindingRow{}, Ended: []FindingRow{}, Omitted: s.book.dropped}
	for _, x := range list {
		if x.EndedNs == 0 {
			f.Open = append(f.Open, x.row())
		} else {
			f.Ended = append(f.Ended, x.row())
		}
	}
	return f
}

func (f *Finding) row() FindingRow {
	return FindingRow{f.Rule, f.Level(), f.Subject, f.Text, f.Means(), stamp(f.SinceNs), stamp(f.FoundNs), stamp(f.EndedNs), f.Events}
}
