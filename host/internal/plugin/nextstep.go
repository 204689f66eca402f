package plugin

// NextStep says what a person should do about the problem: its own advice, or that of the first diagnostic.
func (e *Error) NextStep() string {
	if e.Next != "" {
		return e.Next
	}
	for _, d := range e.Diagnostics {
		if d.Next != "" {
			return d.Next
		}
	}
	return ""
}
