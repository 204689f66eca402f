package quarantine

import (
	"fmt"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/evict"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// stuckFile is a file that could not be moved aside, and why.
type stuckFile struct {
	autorun.File
	err error
}

func (s stuckFile) refuse() error {
	return fmt.Errorf("%s was created in the sandbox and could not be moved aside (%s): %w; look at it and remove it, or move it elsewhere: no command runs until then", s.AbsPath(), s.Kind.Why(), s.err)
}

// leftovers are the files that could not be moved aside.
type leftovers struct {
	mu   sync.Mutex
	list []stuckFile
}

func (r *leftovers) add(list []stuckFile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, list...)
}

// retry tries again. The error names a file that is still there.
func (r *leftovers) retry() (moved []Moved, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.list[:0]
	for _, s := range r.list {
		if !there(s.File) {
			continue
		}
		m, err := moveAside(s.File)
		if err != nil && !fspath.IsNotExist(err) {
			left = append(left, stuckFile{s.File, err})
		}
		if m != nil {
			moved = append(moved, *m)
		}
	}
	if r.list = left; len(left) > 0 {
		return moved, left[0].refuse()
	}
	return moved, nil
}

// there reports whether the file itself is still at its path. If that can't be found out, it reports true.
func there(p autorun.File) bool {
	in, err := evict.Open(p.Root, p.Path)
	if err != nil {
		return !fspath.IsNotExist(err)
	}
	defer in.Close()
	info, err := in.Folder.Lstat(in.Name)
	if err != nil {
		return !fspath.IsNotExist(err)
	}
	is, _ := fspath.InodeOf(info)
	return is == p.ID.Inode()
}
