package gitconfig

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Bounds of what is followed: git's own depth of includes, and how many files there may be of a repository.
const (
	maxDepth = 10
	maxFiles = 200
)

// User is what git knows of who starts it.
type User struct {
	Home   string   // empty: none
	Global []string // the user's files, which need not be there
	System []string
}

// Files are those that git reads for a user, in the order in which it does.
func (u User) files() []string {
	out := append([]string(nil), u.System...)
	return append(out, u.Global...)
}

// UserOf is a user as the environment says.
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

// Settings are what git would read.
type Settings struct {
	List  []Setting
	Files []string // that were read, or would be if they were there, absolute; includes among them
	Cut   bool     // there is more than is followed
}

// Read reads the settings of the repository with this folder of its own, and those of the user. common is the folder of the repository that
// a worktree belongs to; it may be the same. What an includeIf asks is not answered: each counts as included, since a checkout in another
// place, or of another branch, makes it so.
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
	list, _ := Parse(text) // git goes no further either
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

// Expand is a path of a setting: relative to a folder, or to the home of the user.
func Expand(path, dir, home string) string {
	switch rest, ok := strings.CutPrefix(path, "~/"); {
	case path == "" || strings.ContainsRune(path, 0):
		return ""
	case ok && home != "":
		return filepath.Join(home, rest)
	case ok || strings.HasPrefix(path, "~"): // another user's
		return ""
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe that nobody writes to
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
