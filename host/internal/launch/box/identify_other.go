//go:build !linux && !darwin

package box

import (
	"io/fs"
	"os"
)

const maxPath = 4096

func passable(string) bool { return false }

func locked(string) bool { return false }

// identify knows what a path is, but not whether it has changed: there are no boxes here.
func identify(path string) (identity, fs.FileMode, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return identity{}, 0, false
	}
	return identity{}, info.Mode().Type(), true
}

func born(string) int64 { return 0 }

func fileOf(fs.FileInfo) (file, uint64) { return file{}, 0 }

func linkCount(string) (identity, uint64, bool) { return identity{}, 0, false }

func placed(path string) (in, id identity, mode fs.FileMode, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return identity{}, identity{}, 0, err
	}
	return identity{}, identity{}, info.Mode().Type(), nil
}
