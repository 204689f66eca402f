package gitconfig

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ReadPointer is the path that a file has, behind a word.
func ReadPointer(p, word string) string {
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

// Dir is where a .git that is a file says that the repository lies: of a worktree, or a submodule.
func Dir(p string) string { return ReadPointer(p, "gitdir: ") }

// CommonDir is where the repository lies of whose worktree dir is the own folder; "": it is none's.
func CommonDir(dir string) string { return ReadPointer(filepath.Join(dir, "commondir"), "") }
