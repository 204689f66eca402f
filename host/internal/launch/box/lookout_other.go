//go:build !linux

package box

// lookout is not needed: macOS's sandbox denies names, whenever a file appears there.
type lookout struct{ stirred func() }

func (*lookout) add([]string) error { return nil }

func (*lookout) close() {}
