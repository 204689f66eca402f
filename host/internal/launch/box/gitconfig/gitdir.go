package gitconfig

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ReadPointer returns the resolved path that a file contains after the prefix word, or "".
func ReadPointer(p, word string) string {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe without a writer by now
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 2*4096))
	text, _, _ := strings.Cut(string(b), "\x00") // as git reads it: blanks belong to the name
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), word)
	if err != nil || !ok || to == "" {
		return ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Dir(p) + "/" + to // not joined: .. after a symbolic link is relative to its target
	}
	real, err := filepath.EvalSymlinks(to)
	if err != nil {
		return ""
	}
	return real
}

// Dir returns where a .git file says that the repository of a worktree or submodule is, or "".
func Dir(p string) string { return ReadPointer(p, "gitdir: ") }

// CommonDir returns the main repository of the worktree whose own folder is dir, or "".
func CommonDir(dir string) string { return ReadPointer(filepath.Join(dir, "commondir"), "") }
