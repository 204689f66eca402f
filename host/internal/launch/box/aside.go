package box

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// A command may have put obstacles around what it has made: folders without the right to write or to enter them, names that are taken,
// names and paths that are too long. All that is its own, so that its owner may clear it away.

// place is a part in its folder, which may be changed until close.
type place struct {
	folder *os.Root
	name   string
	above  []*os.Root
	undo   []func() // gives folders the rights that they had
}

// reach goes to a part from its root, one folder after the other, so that no length of the path matters, and takes the rights in them that
// their owner lacks.
func (p part) reach() (*place, error) {
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return nil, err
	}
	in := &place{folder: root}
	names := strings.Split(filepath.Clean(p.path), "/")
	for _, name := range names[:len(names)-1] {
		if err := in.enter(name); err != nil {
			in.close()
			return nil, err
		}
	}
	in.name = names[len(names)-1]
	in.allow(".", 0o300)
	return in, nil
}

// enter goes one folder down. A link is none: what it leads to was found by its own path.
func (in *place) enter(name string) error {
	info, err := in.folder.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	in.allow(name, 0o500)
	next, err := in.folder.OpenRoot(name)
	if err != nil {
		return err
	}
	in.above = append(in.above, in.folder)
	in.folder = next
	return nil
}

// allow gives the owner of a folder rights that it lacks, until close.
func (in *place) allow(name string, rights fs.FileMode) {
	info, err := in.folder.Lstat(name)
	if err != nil || !info.IsDir() || info.Mode().Perm()&rights == rights {
		return
	}
	was, at := info.Mode()&(fs.ModePerm|fs.ModeSticky|fs.ModeSetgid), in.folder
	if at.Chmod(name, was|rights) == nil {
		in.undo = append(in.undo, func() { _ = at.Chmod(name, was) })
	}
}

func (in *place) close() {
	for _, undo := range slices.Backward(in.undo) {
		undo()
	}
	for _, root := range append(in.above, in.folder) {
		root.Close()
	}
}

// maxNumbered is how many names with a number are tried before one at random.
const maxNumbered = fspath.MaxQuarantined

// rename gives it a name that has no meaning, and returns that.
func (in *place) rename() (string, error) {
	for n := 1; n <= maxNumbered+1; n++ {
		to := fspath.QuarantineName(in.name, n)
		if n > maxNumbered {
			to = in.name + fspath.QuarantineSuffix + "-" + rand.Text()
		}
		_, err := in.folder.Lstat(to)
		if errors.Is(err, syscall.ENAMETOOLONG) {
			to = rand.Text() + fspath.QuarantineSuffix
			_, err = in.folder.Lstat(to)
		}
		switch {
		case err == nil:
			continue
		case !fspath.IsNotExist(err):
			return "", err
		}
		return to, in.folder.Rename(in.name, to)
	}
	return "", fs.ErrExist
}

// disown makes a program one that runs with the rights of whoever starts it.
func (in *place) disown() error {
	info, err := in.folder.Lstat(in.name)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return in.folder.Chmod(in.name, info.Mode().Perm())
}

// disarm makes what can't be renamed something that can be neither read nor executed, which needs no right in the folder that it lies in.
// Root reads all the same, so for root a file is emptied, unless it has another name under which it may be somebody's work.
func (in *place) disarm() error {
	info, err := in.folder.Lstat(in.name)
	if err != nil {
		return err
	}
	root := os.Geteuid() == 0
	if !root && (info.IsDir() || info.Mode().IsRegular()) {
		return in.folder.Chmod(in.name, 0)
	}
	if _, links := fspath.InodeOf(info); !info.Mode().IsRegular() || links != 1 {
		return errors.New("it can't be emptied")
	}
	f, err := in.folder.OpenFile(in.name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return errors.Join(err, errors.New("it was exchanged"))
	}
	return errors.Join(f.Chmod(0), f.Truncate(0))
}

// stuckPart is a part that is there, was not dealt with, and why.
type stuckPart struct {
	part
	err error
}

func (s stuckPart) refusal() error {
	return fmt.Errorf("%s was made in the sandbox and could not be moved aside (%s): %w; look at it and remove it, or move it elsewhere; until then no command runs", s.full(), s.kind.why(), s.err)
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
		if !s.there() {
			continue
		}
		m, err := s.moveAside()
		if err != nil && !fspath.IsNotExist(err) {
			left = append(left, stuckPart{s.part, err})
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
func (p part) there() bool {
	in, err := p.reach()
	if err != nil {
		return !fspath.IsNotExist(err)
	}
	defer in.close()
	info, err := in.folder.Lstat(in.name)
	if err != nil {
		return !fspath.IsNotExist(err)
	}
	is, _ := fspath.InodeOf(info)
	return is == p.id.Inode()
}
