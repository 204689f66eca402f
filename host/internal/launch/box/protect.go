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

// protect adds to a view what stays read-only below its roots. Where a protected name, or what is denied, is missing an empty
// folder stands in for it, so that nobody can make one; release takes away those that nobody needs any more. What is opened may
// be made or changed.
func (b *Box) protect(v *view, opened, missing []string) (release func(), err error) {
	var entered []string
	release = func() {
		for _, root := range entered {
			b.leave(root)
		}
	}
	fail := func(format string, args ...any) (func(), error) {
		release()
		return nil, fmt.Errorf(format, args...)
	}
	for _, root := range v.roots {
		if err := b.enter(root); err != nil {
			return fail("protect %s: %w", root, err)
		}
		entered = append(entered, root)
		for _, name := range Protected {
			p := filepath.Join(root, name)
			info, err := os.Lstat(p)
			if slices.Contains(v.roots, p) || isOpen(p, opened) && (err != nil || !info.IsDir()) {
				continue
			}
			if isOpen(p, opened) && !b.seatbelt {
				v.ajar = append(v.ajar, p)
				continue
			}
			switch {
			case errors.Is(err, fs.ErrNotExist) && b.seatbelt: // the name is denied
			case errors.Is(err, fs.ErrNotExist):
				ours, err := standFor(p)
				if err != nil {
					return fail("%w", err)
				}
				if ours {
					v.hold = append(v.hold, p)
				}
			case err != nil:
				return fail("protect %s: %w", p, err)
			case info.Mode()&fs.ModeSymlink != 0:
				return fail("%s can't be kept read-only: it is a symbolic link in a folder that is writable; replace it by what it points to", p)
			default:
				v.hold = append(v.hold, p)
				if name == ".git" && info.Mode().IsRegular() {
					if dir := gitDir(p); dir != "" && insideAny(dir, v.roots) {
						v.hold = append(v.hold, dir)
					}
				}
			}
		}
	}
	if b.seatbelt {
		missing = nil
	}
	for _, p := range missing {
		ours, err := standFor(p)
		if err != nil {
			return fail("%w", err)
		}
		if ours {
			v.hold = append(v.hold, p)
		}
	}
	b.tidy(v)
	return release, nil
}

// gitDir is where a .git that is a file says that the repository lies: of a worktree, or a submodule.
func gitDir(p string) string { return ledTo(p, "gitdir: ") }

// commonDir is where the repository lies of whose worktree dir is the own folder; "": it is none's.
func commonDir(dir string) string { return ledTo(filepath.Join(dir, "commondir"), "") }

// ledTo is the path that a file has, behind a word.
func ledTo(p, word string) string {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0) // by now it may be a pipe that nobody writes to
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 2*4096))
	text, _, _ := strings.Cut(string(b), "\x00") // as git reads it, which takes a blank for a part of a name
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), word)
	if err != nil || !ok || to == "" {
		return ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Dir(p) + "/" + to // not joined: .. behind a link leads from where that leads
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
