//go:build !linux

package box

import (
	"errors"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// folderWithoutLinks returns an error: there are no narrow sandboxes on this system.
func folderWithoutLinks(string) (fspath.Inode, error) { return fspath.Inode{}, errors.ErrUnsupported }
