// Package profile keeps the folders in which browsers write.
//
// It owns: their names, and which of them are in use. It must not know: what a browser writes, or who starts it.
//
// Start with [Make] in the plugin and [Hold] in the process that becomes the browser.
package profile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// mode: what a browser writes is for the user alone.
const mode = 0o700

// Make makes a folder below dir, which is created if it is missing. Until release is called, or a browser that holds it has ended, [Sweep]
// leaves it alone.
func Make(dir, name string) (folder string, release func(), err error) {
	folder = filepath.Join(dir, name)
	for {
		if err := os.MkdirAll(folder, mode); err != nil {
			return "", nil, err
		}
		f, err := os.Open(folder)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed in between
		}
		if err != nil {
			return "", nil, err
		}
		if err := share(f); err != nil {
			_ = f.Close()
			return "", nil, fmt.Errorf("lock %s: %w", folder, err)
		}
		if same(f, folder) {
			return folder, func() { _ = f.Close() }, nil
		}
		_ = f.Close()
	}
}

// same reports whether the open folder f is the one at path.
func same(f *os.File, path string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// Sweep removes the folders below dir that nobody uses.
func Sweep(dir string) error {
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range list {
		errs = append(errs, sweep(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}

func sweep(folder string) error {
	f, err := os.Open(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil // somebody else was faster
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !lock(f) {
		return nil
	}
	return os.RemoveAll(folder)
}
