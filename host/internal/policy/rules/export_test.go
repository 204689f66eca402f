package rules

// Len returns the number of rules.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.size
}
