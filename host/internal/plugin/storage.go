package plugin

import (
	"errors"
	"io/fs"
	"os"
)

// maxEntries is how many files and folders those of a plugin may hold: each costs the disk something, however small.
const maxEntries = 200_000

var errEnough = errors.New("more than there may be")

// held measures folders, and stops where they hold more than they may. What lies elsewhere is not followed. The error names a folder
// that can't be read, and so not measured.
func held(folders []string, most int64) (bytes int64, entries int, err error) {
	for _, dir := range folders {
		root, err := os.OpenRoot(dir)
		if errors.Is(err, fs.ErrPermission) {
			return bytes, entries, err
		}
		if err != nil {
			continue
		}
		err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrPermission) {
				return err
			}
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
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return bytes, entries, err
		}
	}
	return bytes, entries, nil
}

// removeAll removes a folder with all that is in it, also where a plugin has taken away its own user's right to look into one.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, rerr := os.OpenRoot(path)
	if rerr != nil {
		return err
	}
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() { // called before the folder is read
			_ = root.Chmod(name, 0o700)
		}
		return nil
	})
	_ = root.Close()
	return os.RemoveAll(path)
}
