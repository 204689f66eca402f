//go:build !linux && !darwin

package checkpoint

import (
	"io/fs"
	"time"
)

// changedAt is when a file was changed last, as far as the system tells.
func changedAt(info fs.FileInfo) time.Time { return info.ModTime() }
