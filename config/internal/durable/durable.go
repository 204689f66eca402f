// Package durable changes small files that several processes share.
//
// It owns: the lock around read, change and write, and the atomic replacement. It must not know: what is in the files.
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

// A change takes milliseconds, so waiting for the lock begins with short pauses. There is no event to wait for: a lock
// of a file has no wake-up that a context could end.
const (
	firstPause = 2 * time.Millisecond
	maxPause   = 100 * time.Millisecond
)

// errBusy is returned by tryLock when another process or goroutine holds the lock.
var errBusy = errors.New("locked by another process")

// Update runs change on what the file holds (nil when there is no file) while no other Update of a file in the same
// folder runs, and replaces the file with the result unless that is the same. The folder is made when it is missing. It
// waits for the lock until ctx ends.
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

// Replace writes a file so that a reader, or a crash, sees the old content or the new, never a part. A symbolic link is
// refused: writing through it would change a file somewhere else.
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
	// The new name is durable once the folder is. A file system that can't sync folders has renamed all the same.
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}

// lock waits for the lock of a folder. The folder itself is locked, not a file in it: the file is replaced under the
// lock, and a lock file beside it would stay for ever.
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
