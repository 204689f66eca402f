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

// Target is a file to evict, opened by the folder that it is in. Close restores the rights that were changed on the way.
type Target struct {
	Folder *os.Root
	Name   string
	above  []*os.Root
	undo   []func() // restores rights of folders
}

// Open opens the folder of path, which is relative to root. It goes one folder at a time, so that the length of the path does not
// matter, and grants the owner the rights that are missing on the way.
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

// maxReplaced is how often a process may replace a folder while it is being opened.
const maxReplaced = 1000

// enter opens a subfolder. It refuses symbolic links: what they lead to was found under its own path. A folder that becomes one, or another
// folder, before it is open is looked at again.
func (in *Target) enter(name string) error {
	for tries := 1; ; tries++ {
		info, err := in.Folder.Lstat(name)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
		}
		in.allow(name, 0o500)
		next, err := in.open(name, info)
		if err == nil {
			in.above = append(in.above, in.Folder)
			in.Folder = next
			return nil
		}
		if tries == maxReplaced || !replaced(err) {
			return err
		}
	}
}

var errReplaced = errors.New("it was replaced")

// replaced reports whether a folder could not be opened because there is something else in its place, such as a link out of the root.
func replaced(err error) bool {
	_, system := errors.AsType[syscall.Errno](err)
	return !system || fspath.IsNotExist(err) || errors.Is(err, syscall.ELOOP)
}

// open opens the subfolder that info is of.
func (in *Target) open(name string, info fs.FileInfo) (*os.Root, error) {
	next, err := in.Folder.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = errReplaced
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// allow grants the owner of a folder rights until Close.
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

// maxNumbered is how many numbered names Rename tries before a random one.
const maxNumbered = fspath.MaxQuarantined

// Rename gives the file a name that no program looks for, and returns it.
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

// DropSetID removes the setuid and setgid bits of a program.
func (in *Target) DropSetID() error {
	info, err := in.Folder.Lstat(in.Name)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return in.Folder.Chmod(in.Name, info.Mode().Perm())
}

// Disable makes a file that can't be renamed unreadable and not executable, which needs no right in its folder. Root could read it
// anyway, so for root the file is emptied instead, unless it has another name, under which it may be somebody's work.
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
		return errors.Join(err, errReplaced)
	}
	return errors.Join(f.Chmod(0), f.Truncate(0))
}

// MakeListable gives the owner of a folder the right to list and enter it.
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
		in.undo = nil // the root itself: Close would take the right back
	}
	return in.Folder.Chmod(in.Name, info.Mode().Perm()|0o500)
}
