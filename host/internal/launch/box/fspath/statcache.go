package fspath

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
)

// StatCache caches the types of files by path, missing ones included.
type StatCache struct{ modes map[string]fs.FileMode }

// NewStatCache returns an empty cache.
func NewStatCache() StatCache { return StatCache{modes: map[string]fs.FileMode{}} }

const absentMode = fs.ModeIrregular | fs.ModeTemporary

// Lstat returns the type of a file, element by element. plain is false if a symbolic link or, on macOS, another spelling may be on
// the way: then the names alone say nothing about the file.
func (w *StatCache) Lstat(path string) (mode fs.FileMode, there, plain bool) {
	if runtime.GOOS == "darwin" || path != filepath.Clean(path) || !filepath.IsAbs(path) {
		return 0, false, false
	}
	for end := 1; end < len(path); end++ {
		if i := strings.IndexByte(path[end:], '/'); i < 0 {
			end = len(path)
		} else {
			end += i
		}
		step, known := w.modes[path[:end]]
		if !known {
			var ok bool
			if _, step, ok = Lstat(path[:end]); !ok {
				step = absentMode
			}
			w.modes[path[:end]] = step
		}
		switch {
		case step == absentMode:
			return 0, false, true
		case step&fs.ModeSymlink != 0:
			return 0, false, false
		case end < len(path) && !step.IsDir():
			return 0, false, true
		}
		mode = step
	}
	return mode, true, true
}
