package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// MaxFileBytes is the maximum size of a file whose content is read and stored. For a larger file, size and modification time are
// recorded: its changes are detected, but can't be undone.
const MaxFileBytes = 16 << 20

// Snapshot is the state of a path, with its content.
type Snapshot struct {
	event.FileState
	Data []byte      // of a regular file; nil if SHA256 is empty
	Info fs.FileInfo // nil: the path does not exist
}

// Inspect inspects a path. It does not follow a symbolic link at its end, and opens only regular files: opening a pipe could block forever.
func Inspect(path string) Snapshot {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return Snapshot{FileState: event.FileState{Kind: event.FileAbsent}}
	case err != nil:
		return Snapshot{FileState: event.FileState{Kind: event.FileUnreadable, Why: reason(err)}}
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return Snapshot{FileState: event.FileState{Kind: event.FileUnreadable, Why: reason(err)}, Info: info}
		}
		return Snapshot{FileState: event.FileState{Kind: event.FileLink, Target: target}, Info: info}
	case !info.Mode().IsRegular():
		return Snapshot{FileState: event.FileState{Kind: event.FileOther}, Info: info}
	}
	s := Snapshot{FileState: event.FileState{Kind: event.FileRegular, Mode: bits(info.Mode()), Size: info.Size()}, Info: info}
	if info.Size() > MaxFileBytes {
		return s.unread(fmt.Sprintf("it exceeds %d MiB", MaxFileBytes>>20))
	}
	data, err := read(path, info)
	if err != nil {
		return s.unread(reason(err))
	}
	sum := sha256.Sum256(data)
	s.Data, s.Size, s.SHA256 = data, int64(len(data)), hex.EncodeToString(sum[:])
	return s
}

func (s Snapshot) unread(why string) Snapshot {
	s.Why, s.Modified = why, s.Info.ModTime().UnixNano()
	return s
}

func read(path string, info fs.FileInfo) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, opened) || !opened.Mode().IsRegular() {
		return nil, errors.New("it was replaced while it was being read")
	}
	b := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead)) // one allocation, unless the file grows
	if _, err := b.ReadFrom(io.LimitReader(f, MaxFileBytes+1)); err != nil {
		return nil, err
	}
	if b.Len() > MaxFileBytes {
		return nil, errors.New("it grew while it was being read")
	}
	return b.Bytes(), nil
}

// reason returns the text of an error without the file's name, which messages contain already.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return err.Error()
}

// bits returns the permission bits of a mode in the form of chmod.
func bits(m fs.FileMode) uint32 {
	out := uint32(m.Perm())
	for bit, special := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if m&special != 0 {
			out |= bit
		}
	}
	return out
}

// Resolve resolves the symbolic links in the folders of an absolute path, so that each file has one name. It also returns the topmost
// folder of the path that does not exist, or "".
func Resolve(path string) (resolved, newFolder string) {
	path = filepath.Clean(path)
	dir, base := filepath.Split(path)
	dir = filepath.Clean(dir)
	if base == "" {
		return path, ""
	}
	var missing []string // from the innermost one outwards
	for at := dir; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			if len(missing) > 0 {
				newFolder = filepath.Join(real, missing[len(missing)-1])
			}
			for i := len(missing) - 1; i >= 0; i-- {
				real = filepath.Join(real, missing[i])
			}
			return filepath.Join(real, base), newFolder
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return path, ""
		}
		missing = append(missing, filepath.Base(at))
	}
}

// maxLinks is the maximum number of symbolic links in the resolution of a path, as on Linux.
const maxLinks = 40

// resolveLinks returns the resolved path and, if it is a symbolic link, the chain of its targets. A write to the path changes the last one.
func resolveLinks(path string) []place {
	var out []place
	for range maxLinks {
		resolved, newFolder := Resolve(path)
		out = append(out, place{resolved, newFolder})
		target, err := os.Readlink(resolved)
		if err != nil {
			return out // usually it is not a link
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(resolved), target)
		}
		path = target
	}
	return out
}

type place struct{ path, newFolder string }

// Root returns the folder to which the paths of a diff are relative: the git work tree that contains dir, or dir itself, with
// symbolic links resolved.
func Root(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// Shown returns the form of a path in a diff: relative to root, with slashes. A path outside root stays absolute.
func Shown(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(rel)
}
