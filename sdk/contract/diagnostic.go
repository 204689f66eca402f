package contract

// Error implements error, so that a plugin can return a *Diagnostic as an error.
func (d *Diagnostic) Error() string {
	if d.Detail == "" {
		return d.Summary
	}
	return d.Summary + ": " + d.Detail
}
