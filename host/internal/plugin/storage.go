package plugin

import (
	"errors"
	"io/fs"
	"os"
)

// maxEntries is how many files and folders those of a plugin may hold: each costs the disk something, however small.
const maxEntries = 200_000

var errEnough = errors.New("more than there may be")

// held measures folders, and stops where they hold more than they may. What can't be read is not counted; what lies elsewhere is not
// followed.
func held(folders []string, most int64) (bytes int64, entries int) {
	for _, dir := range folders {
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue
		}
		err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if info, err := d.Info(); err == nil {
				bytes += allocated(info)
			}
			if entries++; bytes > most || entries > maxEntries {
				return errEnough
			}
			return nil
		})
		_ = root.Close()
		if err != nil {
			break
		}
	}
	return bytes, entries
}
