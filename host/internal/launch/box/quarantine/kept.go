package quarantine

import (
	"maps"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Denied are files and folders that the user's settings deny, with their paths.
type Denied map[fspath.Identity]string

// covers reports whether a path is denied, or lies in what is.
func (k Denied) covers(path string) bool {
	for at := path; len(k) > 0 && at != filepath.Dir(at); at = filepath.Dir(at) {
		if id, _, ok := fspath.Lstat(at); ok {
			if _, ok := k[fspath.Persistent(at, id)]; ok {
				return true
			}
		}
	}
	return false
}

// below reports whether something denied lies in a folder.
func (k Denied) below(dir string) bool {
	for p := range maps.Values(k) {
		if fspath.Below(p, dir) {
			return true
		}
	}
	return false
}
