//go:build !linux && !darwin

package fspath

import (
	"io/fs"
	"os"
)

const MaxPath = 4096

func Searchable(string) bool { return false }

func LacksRights(string) bool { return false }

// Lstat returns the type of a file and an empty identity: there are no sandboxes on this system.
func Lstat(path string) (Identity, fs.FileMode, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return Identity{}, 0, false
	}
	return Identity{}, info.Mode().Type(), true
}

func BirthTime(string) int64 { return 0 }

func InodeOf(fs.FileInfo) (Inode, uint64) { return Inode{}, 0 }

func LinkCount(string) (Identity, uint64, bool) { return Identity{}, 0, false }

func LstatIn(path string) (in, id Identity, mode fs.FileMode, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Identity{}, Identity{}, 0, err
	}
	return Identity{}, Identity{}, info.Mode().Type(), nil
}
