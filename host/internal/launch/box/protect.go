package box

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// protect returns what stays read-only below the roots. Where a protected name is missing an empty folder stands in for it,
// so that nobody can make one; release takes away those that nobody needs any more.
func (b *Box) protect(roots []string) (hold []string, release func(), err error) {
	var made []string
	release = func() { b.release(made) }
	for _, root := range roots {
		for _, name := range Protected {
			p := filepath.Join(root, name)
			info, err := os.Lstat(p)
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
				if dir := gitDir(p, name, info); dir != "" && insideAny(dir, roots) {
					hold = append(hold, dir)
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
func gitDir(p, name string, info fs.FileInfo) string {
	if name != ".git" || !info.Mode().IsRegular() {
		return ""
	}
	b, err := os.ReadFile(p)
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

// Writable says whether a path may be written in a box with these roots: it lies in one, and in or under no protected name of
// it. It looks at the path alone; what links make of it is for the box to stop.
func Writable(roots []string, path string) bool {
	path = filepath.Clean(path)
	for _, r := range roots {
		r = filepath.Clean(r)
		if path != r && !below(path, r) {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, r), "/"), "/")
		return !slices.Contains(Protected, first)
	}
	return false
}
