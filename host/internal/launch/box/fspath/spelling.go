package fspath

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// dataVolume is where macOS shows the folders of "/" that can be written a second time. The kernel's name for what is in them is the
// short one.
const dataVolume = "/System/Volumes/Data"

// folders are what spelling needs of a file system.
type folders struct {
	names func(dir string) []string // in a folder; nil: it can't be read
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

// spelled is a path without links in the file system's own spelling, as far as it is there. Where upper and lower case are the same a
// path has many, and the sandbox knows one.
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

// Spelled is a path without links as the sandbox knows it.
func Spelled(path string) string {
	if runtime.GOOS != "darwin" {
		return path
	}
	return ofSystem.spelled(path)
}
