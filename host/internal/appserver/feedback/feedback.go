// Package feedback writes reports about problems to files, which the user can look at and pass on. Nothing leaves the machine.
//
// It owns: in which folder reports are, and that none replaces another file. It must not know: what is in a report.
//
// Start with [Save].
package feedback

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gantry-agent/gantry/config/hint"
)

// Save writes a zip file below dir, which it creates if it doesn't exist, and returns the path. name is a path relative to dir, or an absolute
// one below it. fill adds the content; if it fails, no file is left. A file that exists, and a path outside of dir, are errors.
func Save(dir, name string, fill func(*zip.Writer) error) (path string, err error) {
	local := name
	if filepath.IsAbs(name) {
		if local, err = filepath.Rel(dir, name); err != nil {
			local = ""
		}
	}
	if local = filepath.Clean(local); !filepath.IsLocal(local) || local == "." {
		return "", hint.With(fmt.Errorf("%q is not the path of a file below %s", name, dir), "use a path relative to that folder")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir) // which a link does not lead out of
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(local), 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, local)
	f, err := root.OpenFile(local, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", hint.With(fmt.Errorf("%s exists", path), "use another name")
	}
	if err != nil {
		return "", err
	}
	z := zip.NewWriter(f)
	err = fill(z)
	if err = errors.Join(err, z.Close(), f.Close()); err != nil {
		return "", errors.Join(err, root.Remove(local))
	}
	return path, nil
}
