package workbench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// errMoved is returned when a path still has a symbolic link after it was resolved: one that leads nowhere, or that has been created
// since, perhaps by a command that tries to have another file read or written.
var errMoved = errors.New("leads through a symbolic link that leads nowhere or has just been changed")

// place is a file by the open folder that contains it. A path is resolved, judged, and then opened without following any symbolic
// link, so what is opened is what was judged, whatever happens to the path meanwhile.
type place struct {
	dir  *os.Root
	name string // in dir; "." for the root of the file system
	path string // resolved
}

func (p place) close() { p.dir.Close() }

// locate opens the folder that contains a resolved path.
func locate(path string) (place, error) {
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return place{}, err
	}
	name := filepath.Base(path)
	if filepath.Dir(path) == path {
		name = "."
	}
	return place{dir, name, path}, nil
}

// openDir opens the folder at a resolved path, element by element. A folder that may be entered and not listed can't be opened; its name
// is kept for the next one below it.
func openDir(path string) (*os.Root, error) {
	top := filepath.VolumeName(path) + string(filepath.Separator)
	at, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	closed := ""
	for name := range strings.SplitSeq(strings.TrimPrefix(path, top), string(filepath.Separator)) {
		if name == "" {
			continue
		}
		next, err := enter(at, filepath.Join(closed, name))
		if errors.Is(err, fs.ErrPermission) {
			closed = filepath.Join(closed, name)
			continue
		}
		at.Close()
		if err != nil {
			return nil, err
		}
		at, closed = next, ""
	}
	if closed != "" {
		at.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES}
	}
	return at, nil
}

// enter opens a folder in another one. It does not follow a symbolic link.
func enter(in *os.Root, name string) (*os.Root, error) {
	seen, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	switch {
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, errMoved
	case !seen.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	dir, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := dir.Stat("."); err != nil || !os.SameFile(seen, opened) {
		dir.Close()
		return nil, errMoved
	}
	return dir, nil
}

// open opens an existing file, not through a symbolic link and without waiting for the other end of a pipe. mode says what the file has
// to be: 0 for a regular file, or [fs.ModeDir].
func (p place) open(flag int, mode fs.FileMode) (*os.File, error) {
	f, err := p.dir.OpenFile(p.name, flag|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = p.same(info)
	}
	if err == nil && info.Mode().Type() != mode {
		err = wrongType(info.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// same returns an error if an open file is not what the name stands for itself: there is a symbolic link.
func (p place) same(opened fs.FileInfo) error {
	now, err := p.dir.Lstat(p.name)
	if err != nil {
		return err
	}
	if !os.SameFile(now, opened) {
		return errMoved
	}
	return nil
}

func wrongType(mode fs.FileMode) error {
	switch mode.Type() {
	case 0:
		return errors.New("is not a folder")
	case fs.ModeDir:
		return errors.New("is a folder")
	}
	return errors.New("is neither a file nor a folder")
}

// find resolves the path of a request for reading, and judges it.
func (b *Bench) find(field, path string) (place, error) {
	if err := absolute(field, path); err != nil {
		return place{}, err
	}
	real := filepath.Clean(path)
	if r, err := filepath.EvalSymlinks(real); err == nil {
		real = fspath.Spelled(r)
	} else {
		real = fspath.ResolveParent(real)
	}
	r := b.cfg.areas().of(real)
	if err := r.supported(); err != nil {
		return place{}, err
	}
	if err := r.readable(real); err != nil {
		return place{}, err
	}
	p, err := locate(real)
	return p, named(path, err)
}

// named returns the error of an operation on a path, with the operating system's text.
func named(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*rpc.Error](err); ok {
		return err
	}
	if errors.Is(err, errMoved) {
		return rpc.Errorf(rpc.InvalidRequest, "%s %s", path, err)
	}
	return rpc.Errorf(rpc.Internal, "%s: %s", path, sentence(osText(err)))
}

// sentence returns the C library's text for an errno, which begins with an upper-case letter; Go's table has the same texts.
func sentence(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		s := errno.Error()
		return fmt.Sprintf("%s%s (os error %d)", strings.ToUpper(s[:1]), s[1:], int(errno))
	}
	return err.Error()
}
