//go:build !linux && !darwin

package store

import "io/fs"

// There is no short folder here that belongs to one user only, so a home that is too long is refused.
const (
	shortTemp     = ""
	maxSocketPath = 107
)

func isOwn(fs.FileInfo) bool { return false }
