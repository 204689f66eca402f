// Package durable updates small files that several processes share.
//
// It owns the lock around reading and writing, and the atomic replacement. It does not know what the files contain.
//
// Start with [Update].
package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Waiting for the lock begins with short pauses because an update takes milliseconds. It polls because a context cannot interrupt
// a blocking file lock.
const (
	firstPause = 2 * time.Millisecond
	maxPause   = 100 * time.Millisecond
)

// errBusy is returned by tryLock when another process or goroutine holds the lock.
var errBusy = errors.New("locked by another process")

// Update calls change with the content of the file, or nil if it does not exist, and replaces the file with the result if it
// differs. Updates of files in the same folder exclude each other. Update creates the folder if necessary, and waits for the lock
// until ctx ends.
func Update(ctx context.Context, path string, perm fs.FileMode, change func(old []byte) ([]byte, error)) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of %s: %w", path, err)
	}
	unlock, err := lock(ctx, dir)
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer unlock()
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	exists := err == nil
	fresh, err := change(old)
	if err != nil {
		return err
	}
	if exists && string(old) == string(fresh) {
		return nil
	}
	return Replace(path, fresh, perm)
}

// Replace writes a file atomically: readers, and a crash, see either the old or the new content. It rejects symbolic links,
// because it would change a file elsewhere.
func Replace(path string, data []byte, perm fs.FileMode) (err error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write %s: it is not a regular file", path)
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(tmp.Name())))
		}
	}()
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(perm), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	// The rename is durable only when the folder has been synced. A file system that cannot sync folders has still renamed the
	// file.
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}

// lock waits for the lock of a folder. It locks the folder itself: the file is replaced while the lock is held, and a separate
// lock file would never be removed.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	pause := firstPause
	for {
		held, err := tryLock(dir)
		if err == nil {
			return func() { _ = held.Close() }, nil
		}
		if !errors.Is(err, errBusy) {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", errBusy, context.Cause(ctx))
		case <-timer.C:
		}
		pause = min(2*pause, maxPause)
	}
}
