package projections

// StepComplete says that the file of a step is there and has all its values.
func (s *State) StepComplete(step int) bool {
	if s.Profile == nil {
		return false
	}
	for _, v := range Views {
		if v.Step != step || step == 0 {
			continue
		}
		w := &waits{s: s}
		return v.Render(s, w) != nil && len(w.missing) == 0
	}
	return false
}

// Steps are the numbers of the lab's steps that have a file.
func Steps() []int {
	var steps []int
	for _, v := range Views {
		if v.Step > 0 {
			steps = append(steps, v.Step)
		}
	}
	return steps
}
