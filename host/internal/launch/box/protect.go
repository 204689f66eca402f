package box

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// protect returns what stays read-only below the roots. Where a protected name is missing an empty folder stands in for it,
// so that nobody can make one; release takes away those that nobody needs any more. What is opened may be made or changed.
func (b *Box) protect(roots, opened []string) (hold []string, release func(), err error) {
	var made []string
	release = func() { b.release(made) }
	for _, root := range roots {
		for _, name := range Protected {
			p := filepath.Join(root, name)
			info, err := os.Lstat(p)
			if slices.Contains(roots, p) || isOpen(p, opened) && (err != nil || !info.IsDir()) {
				continue
			}
			switch {
			case errors.Is(err, fs.ErrNotExist):
				ours, err := b.standFor(p)
				if err != nil {
					release()
					return nil, nil, err
				}
				if ours {
					made = append(made, p)
					hold = append(hold, p)
				}
			case err != nil:
				release()
				return nil, nil, fmt.Errorf("protect %s: %w", p, err)
			case info.Mode()&fs.ModeSymlink != 0:
				release()
				return nil, nil, fmt.Errorf("%s can't be kept read-only: it is a symbolic link in a folder that is writable; replace it by what it points to", p)
			default:
				if b.join(p) {
					made = append(made, p)
				}
				hold = append(hold, p)
				if name == ".git" && info.Mode().IsRegular() {
					if dir := gitDir(p); dir != "" && insideAny(dir, roots) {
						hold = append(hold, dir)
					}
				}
			}
		}
	}
	return hold, release, nil
}

// standFor makes an empty folder, or joins those who need one. ours is false where nobody can make one: then nobody in the
// box can, either.
func (b *Box) standFor(p string) (ours bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch err := os.Mkdir(p, 0o555); {
	case errors.Is(err, fs.ErrExist): // since we looked
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("protect %s: %w", p, err)
	}
	b.standIn[p]++
	return true, nil
}

// join notes one more who needs a folder that we made.
func (b *Box) join(p string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.standIn[p] == 0 {
		return false
	}
	b.standIn[p]++
	return true
}

func (b *Box) release(made []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range made {
		if b.standIn[p]--; b.standIn[p] > 0 {
			continue
		}
		delete(b.standIn, p)
		_ = syscall.Rmdir(p) // somebody else's by now, when it holds something
	}
}

// gitDir is where a .git that is a file says that the repository lies: of a worktree, or a submodule.
func gitDir(p string) string {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0) // by now it may be a pipe that nobody writes to
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 2*4096))
	to, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir:")
	if err != nil || !ok {
		return ""
	}
	to = strings.TrimSpace(to)
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(p), to)
	}
	real, err := filepath.EvalSymlinks(to)
	if err != nil {
		return ""
	}
	return real
}

func insideAny(path string, roots []string) bool {
	for _, r := range roots {
		if below(path, r) {
			return true
		}
	}
	return false
}

// isOpen reports whether a path was opened, or lies above what was.
func isOpen(path string, opened []string) bool {
	return slices.ContainsFunc(opened, func(o string) bool { return o == path || below(o, path) })
}

// Writable says whether a path may be written in a box with these roots: it lies in one, and no name on the way to it is
// protected. It looks at the path alone; what links make of it is for the box to stop.
func Writable(roots []string, path string) bool {
	path = filepath.Clean(path)
	for _, r := range roots {
		r = filepath.Clean(r)
		if path != r && !below(path, r) {
			continue
		}
		names := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, r), "/"), "/")
		if slices.Contains(Protected, names[0]) {
			return false
		}
		for i, name := range names {
			switch {
			case !slices.Contains(nestedNames, name):
			case name != ".git" || i == len(names)-1: // a file that says where the repository lies
				return false
			case slices.Contains([]string{"hooks", "config", "config.worktree"}, names[i+1]):
				return false
			}
		}
		return true
	}
	return false
}
