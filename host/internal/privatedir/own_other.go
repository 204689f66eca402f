//go:build !linux && !darwin

package privatedir

import "io/fs"

func isOwn(fs.FileInfo) bool { return false }
