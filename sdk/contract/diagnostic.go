package contract

// Error makes a pointer to a diagnostic an error, so that a plugin can return one where it returns errors.
func (d *Diagnostic) Error() string {
	if d.Detail == "" {
		return d.Summary
	}
	return d.Summary + ": " + d.Detail
}
