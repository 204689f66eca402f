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

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// protect adds to a view what stays read-only below its roots: protected names that are there, but for what is opened. What is missing
// leaves no trace in a root: a command may make it, and it is judged when the command ends, as further down. whole are the protected
// paths with what lies at them, which need no other look as long as the same lies there.
func (b *Box) protect(v *view, opened []string) (whole map[string]fspath.Identity, err error) {
	whole = map[string]fspath.Identity{}
	for _, root := range v.roots {
		for _, name := range Protected {
			p := filepath.Join(root, name)
			info, err := os.Lstat(p)
			switch {
			case errors.Is(err, fs.ErrNotExist): // macOS denies the name
				continue
			case err != nil:
				return nil, fmt.Errorf("protect %s: %w", p, err)
			case isOpen(p, opened) && !info.IsDir():
				continue
			case info.Mode()&fs.ModeSymlink != 0:
				return nil, fmt.Errorf("%s can't be kept read-only: it is a symbolic link in a folder that is writable; replace it by what it points to", p)
			}
			id, _, ok := fspath.Lstat(p)
			if !ok {
				continue // since then it is gone
			}
			whole[p] = fspath.Persistent(p, id)
			switch {
			case slices.Contains(v.roots, p): // asked for by its name
				continue
			case isOpen(p, opened) && !b.seatbelt:
				v.ajar = append(v.ajar, p)
				continue
			}
			v.hold = append(v.hold, p)
			if name == ".git" && info.Mode().IsRegular() {
				if dir := gitDir(p); dir != "" && fspath.BelowAny(dir, v.roots) {
					v.hold = append(v.hold, dir)
				}
			}
		}
	}
	return whole, nil
}

// gitDir is where a .git that is a file says that the repository lies: of a worktree, or a submodule.
func gitDir(p string) string { return ledTo(p, "gitdir: ") }

// commonDir is where the repository lies of whose worktree dir is the own folder; "": it is none's.
func commonDir(dir string) string { return ledTo(filepath.Join(dir, "commondir"), "") }

// isOpen reports whether a path was opened, or lies above what was.
func isOpen(path string, opened []string) bool {
	return slices.ContainsFunc(opened, func(o string) bool { return o == path || fspath.Below(o, path) })
}

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
