// Package evict renames or disables a file that a sandboxed command has made, even if the command has put obstacles in the way: folders
// without the right to write or to enter them, names that are taken, names and paths that are too long. All of that belongs to the user,
// so it can be removed.
//
// It owns: opening a path element by element, the rights that are granted for that and restored afterwards. It must not know: which files
// have to go.
//
// Start with [Open].
package evict

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Target is a part in its folder, which may be changed until close.
type Target struct {
	Folder *os.Root
	Name   string
	above  []*os.Root
	undo   []func() // gives folders the rights that they had
}

// reach goes to a part from its root, one folder after the other, so that no length of the path matters, and takes the rights in them that
// their owner lacks.
func Open(root, path string) (*Target, error) {
	top, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	in := &Target{Folder: top}
	names := strings.Split(filepath.Clean(path), "/")
	for _, name := range names[:len(names)-1] {
		if err := in.enter(name); err != nil {
			in.Close()
			return nil, err
		}
	}
	in.Name = names[len(names)-1]
	in.allow(".", 0o300)
	return in, nil
}

// enter goes one folder down. A link is none: what it leads to was found by its own path.
func (in *Target) enter(name string) error {
	info, err := in.Folder.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	in.allow(name, 0o500)
	next, err := in.Folder.OpenRoot(name)
	if err != nil {
		return err
	}
	in.above = append(in.above, in.Folder)
	in.Folder = next
	return nil
}

// allow gives the owner of a folder rights that it lacks, until close.
func (in *Target) allow(name string, rights fs.FileMode) {
	info, err := in.Folder.Lstat(name)
	if err != nil || !info.IsDir() || info.Mode().Perm()&rights == rights {
		return
	}
	was, at := info.Mode()&(fs.ModePerm|fs.ModeSticky|fs.ModeSetgid), in.Folder
	if at.Chmod(name, was|rights) == nil {
		in.undo = append(in.undo, func() { _ = at.Chmod(name, was) })
	}
}

func (in *Target) Close() {
	for _, undo := range slices.Backward(in.undo) {
		undo()
	}
	for _, root := range append(in.above, in.Folder) {
		root.Close()
	}
}

// maxNumbered is how many names with a number are tried before one at random.
const maxNumbered = fspath.MaxQuarantined

// Rename gives it a name that has no meaning, and returns that.
func (in *Target) Rename() (string, error) {
	for n := 1; n <= maxNumbered+1; n++ {
		to := fspath.QuarantineName(in.Name, n)
		if n > maxNumbered {
			to = in.Name + fspath.QuarantineSuffix + "-" + rand.Text()
		}
		_, err := in.Folder.Lstat(to)
		if errors.Is(err, syscall.ENAMETOOLONG) {
			to = rand.Text() + fspath.QuarantineSuffix
			_, err = in.Folder.Lstat(to)
		}
		switch {
		case err == nil:
			continue
		case !fspath.IsNotExist(err):
			return "", err
		}
		return to, in.Folder.Rename(in.Name, to)
	}
	return "", fs.ErrExist
}

// DropSetID makes a program one that runs with the rights of whoever starts it.
func (in *Target) DropSetID() error {
	info, err := in.Folder.Lstat(in.Name)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return in.Folder.Chmod(in.Name, info.Mode().Perm())
}

// Disable makes what can't be renamed something that can be neither read nor executed, which needs no right in the folder that it lies in.
// Root reads all the same, so for root a file is emptied, unless it has another name under which it may be somebody's work.
func (in *Target) Disable() error {
	info, err := in.Folder.Lstat(in.Name)
	if err != nil {
		return err
	}
	root := os.Geteuid() == 0
	if !root && (info.IsDir() || info.Mode().IsRegular()) {
		return in.Folder.Chmod(in.Name, 0)
	}
	if _, links := fspath.InodeOf(info); !info.Mode().IsRegular() || links != 1 {
		return errors.New("it can't be emptied")
	}
	f, err := in.Folder.OpenFile(in.Name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return errors.Join(err, errors.New("it was exchanged"))
	}
	return errors.Join(f.Chmod(0), f.Truncate(0))
}

// MakeListable lets the owner of a folder list it.
func MakeListable(root, path string) error {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	in, err := Open(root, rel)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Folder.Lstat(in.Name)
	if err != nil {
		return err
	}
	if rel == "." {
		in.undo = nil // which would take it back
	}
	return in.Folder.Chmod(in.Name, info.Mode().Perm()|0o500)
}
