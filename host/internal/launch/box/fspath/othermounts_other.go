//go:build !linux

package fspath

// OtherMounts are further paths of the same files: there are no mounts of folders here.
func OtherMounts([]string) []string { return nil }
