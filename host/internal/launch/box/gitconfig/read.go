package gitconfig

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Limits: git's own depth of includes, and the number of files of a repository.
const (
	maxDepth = 10
	maxFiles = 200
)

// User is what git knows of the user.
type User struct {
	Home   string   // empty: none
	Global []string // the user's files, which need not exist
	System []string
}

// files returns the files that git reads for a user, in git's order.
func (u User) files() []string {
	out := append([]string(nil), u.System...)
	return append(out, u.Global...)
}

// UserOf returns the user that an environment describes.
func UserOf(home string, environ func(string) string) User {
	u := User{Home: home, System: []string{"/etc/gitconfig", "/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig", "/usr/etc/gitconfig"}}
	if f := environ("GIT_CONFIG_SYSTEM"); filepath.IsAbs(f) {
		u.System = append(u.System, f)
	}
	if f := environ("GIT_CONFIG_GLOBAL"); filepath.IsAbs(f) {
		u.Global = append(u.Global, f)
	}
	if dir := environ("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		u.Global = append(u.Global, filepath.Join(dir, "git/config"))
	}
	if home != "" {
		u.Global = append(u.Global, filepath.Join(home, ".config/git/config"), filepath.Join(home, ".gitconfig"))
	}
	return u
}

// Settings are the settings that git would read.
type Settings struct {
	List  []Setting
	Files []string // absolute paths, missing ones and includes among them
	Cut   bool     // a limit was reached
}

// Read returns the settings of the user and of the repository whose own folder is dir. common is the main repository's folder for a
// worktree, or dir. The conditions of includeIf are ignored: each file counts as included, because a checkout elsewhere, or of
// another branch, would include it.
func Read(u User, dir, common string) Settings {
	r := reader{home: u.Home, seen: map[string]bool{}}
	for _, f := range u.files() {
		r.file(f, 0)
	}
	for _, d := range []string{common, dir} {
		if d != "" {
			r.file(filepath.Join(d, "config"), 0)
			r.file(filepath.Join(d, "config.worktree"), 0)
		}
	}
	return r.out
}

type reader struct {
	home string
	seen map[string]bool
	out  Settings
}

func (r *reader) file(path string, depth int) {
	if r.seen[path] {
		return
	}
	if depth > maxDepth || len(r.out.Files) >= maxFiles {
		r.out.Cut = true
		return
	}
	r.seen[path] = true
	r.out.Files = append(r.out.Files, path)
	text, err := readBounded(path)
	if err != nil {
		return
	}
	list, _ := Parse(text) // git reads no further either
	for _, s := range list {
		s.From = path
		r.out.List = append(r.out.List, s)
		if s.Key == "path" && (s.Section == "include" && s.Sub == "" || s.Section == "includeif") {
			if to := Expand(s.Value, filepath.Dir(path), r.home); to != "" {
				r.file(to, depth+1)
			}
		}
	}
}

// Expand returns a setting's path, which may be relative to a folder or to the user's home folder, or "".
func Expand(path, dir, home string) string {
	switch rest, ok := strings.CutPrefix(path, "~/"); {
	case path == "" || strings.ContainsRune(path, 0):
		return ""
	case ok && home != "":
		return filepath.Join(home, rest)
	case ok || strings.HasPrefix(path, "~"): // another user's home folder
		return ""
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe without a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, os.ErrInvalid
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}
