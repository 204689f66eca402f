package fspath

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LinkIn is a symbolic link on the way of a path that lies in one of the roots, so that whoever may write there could have made
// it; empty: there is none.
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

// LinksOn are the symbolic links that a path leads through.
func LinksOn(path string) (out []string) {
	at, rest := "/", strings.TrimPrefix(filepath.Clean(path), "/")
	for rest != "" && path != "" && len(out) < maxLinks {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			break
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		to, err := os.Readlink(next)
		if err != nil {
			break
		}
		out = append(out, next)
		if filepath.IsAbs(to) {
			at, to = "/", strings.TrimPrefix(to, "/")
		}
		rest = strings.Trim(to+"/"+rest, "/")
	}
	return out
}

// maxLinks is how many links the kernel follows.
const maxLinks = 40
