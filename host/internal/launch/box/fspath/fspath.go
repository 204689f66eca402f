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

// Resolve returns path without symbolic links, in the file system's spelling. A path that does not exist is returned as it is, as
// is the empty one.
func Resolve(path string) string {
	if path == "" {
		return ""
	}
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return Spelled(r)
	}
	return path
}

// ResolveParent resolves all elements of path but the last, which may be a symbolic link or not exist.
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

// Below reports whether path is inside the folder dir. A folder is not below itself.
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

// Deepest returns the deepest of roots that path is in or equal to, or "" if there is none.
func Deepest(roots []string, path string) string {
	out := ""
	for _, r := range roots {
		if r = filepath.Clean(r); len(r) > len(out) && (path == r || Below(path, r)) {
			out = r
		}
	}
	return out
}

// Outermost returns the roots that are not inside another root.
func Outermost(roots []string) []string {
	return slices.DeleteFunc(slices.Clone(roots), func(r string) bool { return BelowAny(r, roots) })
}

// ExistingParent returns the deepest existing folder above path.
func ExistingParent(path string) string {
	dir := filepath.Dir(path)
	for !IsDir(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// Between returns the paths from root (exclusive) down to path (inclusive), which is inside root.
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

// IsNotExist reports whether err says that a path does not exist, also because an element on the way is not a folder.
func IsNotExist(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// ContainsOpened reports whether path is one of opened, or contains one of them.
func ContainsOpened(path string, opened []string) bool {
	return slices.ContainsFunc(opened, func(o string) bool { return o == path || Below(o, path) })
}
