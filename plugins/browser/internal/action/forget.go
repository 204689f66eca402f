package action

// Forget makes the next state of each tab a whole one, because the model no longer has what it has seen before.
func (s *Session) Forget() {
	for _, v := range s.views {
		v.Shown = nil
	}
}
