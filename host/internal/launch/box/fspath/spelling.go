package fspath

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// dataVolume is the second place at which macOS shows the writable folders of "/". The kernel uses the short paths.
const dataVolume = "/System/Volumes/Data"

// folders is what spelling needs of a file system.
type folders struct {
	names func(dir string) []string // the names in a folder; nil: it can't be read
	same  func(a, b string) bool    // whether two paths are one file
}

var ofSystem = folders{
	names: func(dir string) []string {
		f, err := os.Open(dir)
		if err != nil {
			return nil
		}
		defer f.Close()
		names, _ := f.Readdirnames(-1)
		return names
	},
	same: func(a, b string) bool {
		x, err := os.Lstat(a)
		if err != nil {
			return false
		}
		y, err := os.Lstat(b)
		return err == nil && os.SameFile(x, y)
	},
}

// spelled returns path, which has no symbolic links, in the file system's own spelling as far as it exists. Where case does not
// matter a path has many spellings, of which macOS's sandbox knows one.
func (f folders) spelled(path string) string {
	if short := strings.TrimPrefix(path, dataVolume); short != path && strings.HasPrefix(short, "/") && f.same(path, short) {
		path = short
	}
	at := "/"
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		given := filepath.Join(at, name)
		names := f.names(at)
		if !slices.Contains(names, name) {
			for _, n := range names {
				if strings.EqualFold(norm.NFC.String(n), norm.NFC.String(name)) && f.same(filepath.Join(at, n), given) {
					given = filepath.Join(at, n)
					break
				}
			}
		}
		at = given
	}
	return at
}

// Spelled returns path, which has no symbolic links, in the spelling that the sandbox knows.
func Spelled(path string) string {
	if runtime.GOOS != "darwin" {
		return path
	}
	return ofSystem.spelled(path)
}
