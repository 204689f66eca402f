//go:build linux || darwin

package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Grow makes folders with empty files in them, ten below one and so on, unless they are there.
func Grow(top string, folders, files int) error {
	if _, err := os.Stat(filepath.Join(top, "whole")); err == nil {
		return nil
	}
	for i := range folders {
		dir := filepath.Join(top, fmt.Sprintf("a%d/b%d/c%d", i/1000, i/100%10, i%100))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for j := range files {
			f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("file%d", j)), os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(top, "whole"), nil, 0o644)
}

// Steps makes a tree that is loaded from its file adopt n folders at a time.
func (o Options) Steps(n int) Options {
	o.step = n
	return o
}

// Deaf keeps notifications from being taken while f runs.
func (t *Tree) Deaf(f func()) {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	f()
}

// LoseWatches is a kernel that watches no more folders from now on.
func (t *Tree) LoseWatches() { t.g.stopWatching("a test") }

// Decode reads what would lie in a file.
func Decode(root string, b []byte) {
	g := newGraph(root, Rules{}, -1)
	g.reset()
	_ = g.decode(b)
}

// Ready waits until the folders were read once.
func (t *Tree) Ready() <-chan struct{} { return t.ready }

// Wait waits until nothing happens in the background any more, for tests and measurements.
func (t *Tree) Wait(most time.Duration) bool {
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-t.idle:
		return true
	case <-late.C:
		return false
	}
}
