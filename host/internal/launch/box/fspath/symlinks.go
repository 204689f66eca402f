package fspath

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LinkIn returns the first symbolic link on the way to path that is inside one of roots, where a command could have made it, or "".
func LinkIn(path string, roots []string) string {
	at := "/"
	for name := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		next := filepath.Join(at, name)
		_, mode, ok := Lstat(next)
		if !ok {
			return ""
		}
		if mode&fs.ModeSymlink != 0 {
			if BelowAny(next, roots) {
				return next
			}
			var err error
			if next, err = filepath.EvalSymlinks(next); err != nil {
				return ""
			}
		}
		at = next
	}
	return ""
}

// Lookup is one step of resolving a path: a name that is looked up in a folder.
type Lookup struct {
	Folder, Name string
	Link         bool // whether a symbolic link is there
}

// Lookups returns the steps by which the kernel resolves a path, through symbolic links as well. It ends at the first name that does not
// exist.
func Lookups(path string) (out []Lookup) {
	const most = 40 // symbolic links, the kernel's limit
	left := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	at := "/"
	for links := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		link := err == nil && info.Mode()&fs.ModeSymlink != 0
		out = append(out, Lookup{at, name, link})
		if err != nil {
			return out
		}
		if !link {
			at = next
			continue
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > most {
			return out
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		left = append(strings.Split(to, "/"), left...)
	}
	return out
}

// LinksOn returns the symbolic links that a path leads through.
func LinksOn(path string) (out []string) {
	for _, l := range Lookups(path) {
		if l.Link {
			out = append(out, filepath.Join(l.Folder, l.Name))
		}
	}
	return out
}
