// Package profile keeps the folders in which browsers write.
//
// It owns: their names, and which of them are in use. It must not know: what a browser writes, or who starts it.
//
// Start with [Make] in the plugin and [Hold] in the process that becomes the browser.
package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
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
		_, err := sweep(filepath.Join(dir, e.Name()))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sweep removes a folder unless somebody uses it, and reports whether it is gone.
func sweep(folder string) (gone bool, err error) {
	f, err := os.Open(folder)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil // somebody else was faster
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if !lock(f) {
		return false, nil
	}
	return true, os.RemoveAll(folder)
}

// Remove removes the folder of a browser that was ended, once the last of its processes, which still hold it, is gone too.
func Remove(ctx context.Context, folder string) error {
	const often = 5 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		if gone, err := sweep(folder); gone || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is still in use: %w", folder, context.Cause(ctx))
		}
	}
}
