package quarantine

import (
	"maps"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Denied are the paths of the files and folders that the user's settings deny, by identity.
type Denied map[fspath.Identity]string

// covers reports whether path is denied, or inside a denied folder.
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

// below reports whether a denied path is inside dir.
func (k Denied) below(dir string) bool {
	for p := range maps.Values(k) {
		if fspath.Below(p, dir) {
			return true
		}
	}
	return false
}
