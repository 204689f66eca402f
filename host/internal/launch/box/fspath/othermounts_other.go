//go:build !linux

package fspath

// OtherMounts returns nothing: this system has no mounts of folders.
func OtherMounts([]string) []string { return nil }
