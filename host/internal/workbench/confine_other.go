//go:build !linux

package workbench

// privileged reports whether this process may do more than its commands by its user alone. Commands keep the user's rights here.
func privileged() bool { return false }

func confineThread() error { return nil }
