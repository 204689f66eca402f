package quarantine

import (
	"fmt"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/evict"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// stuckPart is a part that is there, was not dealt with, and why.
type stuckPart struct {
	autorun.File
	err error
}

func (s stuckPart) refusal() error {
	return fmt.Errorf("%s was made in the sandbox and could not be moved aside (%s): %w; look at it and remove it, or move it elsewhere; until then no command runs", s.Full(), s.Kind.Why(), s.err)
}

// remains are parts that were not dealt with.
type remains struct {
	mu   sync.Mutex
	list []stuckPart
}

func (r *remains) add(list []stuckPart) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, list...)
}

// settle deals with what remains, as far as that is possible now. The error names a part that is still there.
func (r *remains) settle() (moved []Moved, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.list[:0]
	for _, s := range r.list {
		if !there(s.File) {
			continue
		}
		m, err := moveAside(s.File)
		if err != nil && !fspath.IsNotExist(err) {
			left = append(left, stuckPart{s.File, err})
		}
		if m != nil {
			moved = append(moved, *m)
		}
	}
	if r.list = left; len(left) > 0 {
		return moved, left[0].refusal()
	}
	return moved, nil
}

// there reports whether the very part is still where it was. What cannot be found out is taken to be.
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
