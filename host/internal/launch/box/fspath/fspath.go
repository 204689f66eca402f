// Package fspath resolves and compares paths, and identifies the files at them as the kernel sees them.
//
// It owns: resolving symbolic links and spellings, containment of paths, identities by device and inode, other mounts of a file. It must
// not know: what a sandbox is, which paths are protected.
//
// Start with [Lstat] and [Resolve].
package fspath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Resolve is a path without symbolic links, as far as it is there; none stays none.
func Resolve(path string) string {
	if path == "" {
		return ""
	}
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return Spelled(r)
	}
	return path
}

// ResolveParent is a path of which only the last part may be a symbolic link, or not be there.
func ResolveParent(path string) string {
	dir, name := filepath.Split(filepath.Clean(path))
	if dir = filepath.Clean(dir); dir == path {
		return path
	}
	if r, err := filepath.EvalSymlinks(dir); err == nil {
		return filepath.Join(Spelled(r), name)
	}
	return filepath.Join(ResolveParent(dir), name)
}

// Below reports whether path lies in dir.
func Below(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func BelowAny(path string, roots []string) bool {
	for _, r := range roots {
		if Below(path, r) {
			return true
		}
	}
	return false
}

// Deepest is the deepest of the roots that path lies in, or is; "": none.
func Deepest(roots []string, path string) string {
	out := ""
	for _, r := range roots {
		if r = filepath.Clean(r); len(r) > len(out) && (path == r || Below(path, r)) {
			out = r
		}
	}
	return out
}

// Outermost are the roots that lie in no other.
func Outermost(roots []string) []string {
	return slices.DeleteFunc(slices.Clone(roots), func(r string) bool { return BelowAny(r, roots) })
}

// ExistingParent is the deepest folder above a path that is there.
func ExistingParent(path string) string {
	dir := filepath.Dir(path)
	for !IsDir(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// Between are the paths on the way from a folder to a path in it, which is the last.
func Between(root, path string) []string {
	var out []string
	for at := path; at != root; at = filepath.Dir(at) {
		out = append(out, at)
	}
	slices.Reverse(out)
	return out
}

func Depth(path string) int { return strings.Count(strings.TrimSuffix(path, "/"), "/") }

func IsDir(path string) bool {
	info, err := os.Stat(path)
	return path != "" && err == nil && info.IsDir()
}

func IsRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// IsNotExist reports whether an error says that something is not there any more.
func IsNotExist(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// ContainsOpened reports whether path is one of opened, or contains one of them.
func ContainsOpened(path string, opened []string) bool {
	return slices.ContainsFunc(opened, func(o string) bool { return o == path || Below(o, path) })
}
