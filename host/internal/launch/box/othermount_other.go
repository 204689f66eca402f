//go:build !linux

package box

// otherMounts are further paths of the same files: there are no mounts of folders here.
func otherMounts([]string) []string { return nil }
