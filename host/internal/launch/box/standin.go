package box

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// What stands in for a missing name is an empty folder that nobody may write, with a mark by which another gantry, or the next
// one after a crash, knows it: nobody else makes such folders.
const (
	standInMode = 0o1555
	markOf      = fs.ModeDir | fs.ModeSticky
)

// stay is what this process has to do with the stand-ins of a root.
type stay struct {
	users int
	more  map[string]bool // paths of stand-ins beside those of protected names
	lock  *os.File        // shared as long as there are users; nil: no lock could be taken, and others don't know of us
}

// standFor makes an empty folder. ours is false where nobody can make one: then nobody in the box can, either.
func standFor(p string) (ours bool, err error) {
	switch err := syscall.Mkdir(p, standInMode); {
	case err == nil, errors.Is(err, fs.ErrExist): // since we looked
		return true, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return false, nil
	default:
		return false, fmt.Errorf("protect %s: %w", p, err)
	}
}

// standsIn reports whether a path is one of these folders.
func standsIn(p string) bool {
	info, err := os.Lstat(p)
	if err != nil || info.Mode()&(fs.ModeType|markOf) != markOf || info.Mode().Perm()&0o222 != 0 {
		return false
	}
	entries, err := os.ReadDir(p)
	return err == nil && len(entries) == 0
}

// enter notes that a box needs a root's stand-ins, before it looks at them. Until leave no process that shares gantry's folder
// with us takes them away.
func (b *Box) enter(root string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stays[root]
	if s == nil {
		lock, err := b.share(root)
		if err != nil {
			return err
		}
		s = &stay{lock: lock, more: map[string]bool{}}
		b.stays[root] = s
	}
	s.users++
	return nil
}

// tidy notes which stand-ins a view has beside those of protected names: its own, and those of others who may be gone first.
func (b *Box) tidy(v *view) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note := func(p string) {
		for _, root := range v.roots {
			if below(p, root) && standsIn(p) {
				b.stays[root].more[p] = true
			}
		}
	}
	for _, p := range v.hold {
		note(p)
	}
	for _, d := range v.denied {
		note(d.path)
	}
}

// leave takes the stand-ins of a root away when it was the last user of all.
func (b *Box) leave(root string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stays[root]
	if s.users--; s.users > 0 {
		return
	}
	delete(b.stays, root)
	if s.lock != nil {
		defer s.lock.Close()
		// Of several who leave at once the last to ask gets it: asking gives up one's own share first.
		if flock(s.lock, true) != nil {
			return
		}
	}
	for _, name := range Protected {
		s.more[filepath.Join(root, name)] = true
	}
	for p := range s.more {
		if standsIn(p) {
			_ = syscall.Rmdir(p)
		}
	}
	if s.lock != nil {
		_ = os.Remove(s.lock.Name())
	}
}

// share takes a shared lock for a root. nil: gantry's folder can't be written, so that there is nothing to lock.
func (b *Box) share(root string) (*os.File, error) {
	if b.home == "" {
		return nil, nil
	}
	sum := sha256.Sum256([]byte(root))
	path := filepath.Join(b.home, "locks", "box-"+hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil
	}
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, nil
		}
		if err := flock(f, false); err != nil {
			f.Close()
			return nil, nil
		}
		ours, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(ours, there) {
			return f, nil
		}
		f.Close() // the last user has removed it in between
	}
}
