// Package secrets knows where programs and the machine keep keys and passwords.
//
// It owns: the lists of places, resolving them. It must not know: how a file is hidden, from whom.
//
// Start with [Locator.Locate].
package secrets

import (
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Locator finds the places of keys.
type Locator struct {
	Home     string          // gantry's own folder; empty: none
	UserHome string          // the user's home folder; empty: none
	KeyFiles func() []string // further files that hold keys; nil: none
	MacOS    bool            // whether to include the places of macOS
}

// Key is a place where keys are, or would be.
type Key struct {
	Path    string // resolved, or as written if nothing is there
	At      string // Path, or where it would have to be created
	Exists  bool
	Folder  bool
	Regular bool
}

// Locate resolves the places. There are about a hundred of them, mostly missing, and they are resolved before each command, so each
// folder on the way is looked at once.
func (l Locator) Locate() []Key {
	paths := l.Paths()
	list := make([]Key, 0, len(paths))
	w := fspath.NewStatCache()
	for _, p := range paths {
		k := Key{Path: p, At: p}
		var mode fs.FileMode
		var plain bool
		if mode, k.Exists, plain = w.Lstat(p); !plain {
			k.Path = fspath.Resolve(p)
			if _, mode, k.Exists = fspath.Lstat(k.Path); !k.Exists {
				k.At = fspath.ResolveParent(p)
			}
		}
		k.Folder, k.Regular = k.Exists && mode.IsDir(), k.Exists && mode.IsRegular()
		list = append(list, k)
	}
	return list
}

// Paths returns the places below the user's home folder and the files that the configuration reads keys from, unresolved.
func (l Locator) Paths() []string {
	names := UserCredentials
	if l.MacOS {
		names = slices.Concat(UserCredentials, UserCredentialsOnMacOS)
	}
	var out []string
	if l.UserHome != "" {
		for _, name := range names {
			out = append(out, filepath.Join(l.UserHome, name))
		}
	}
	if l.KeyFiles != nil {
		out = append(out, l.KeyFiles()...)
	}
	return out
}

// Inodes returns the files that a sandbox hides, with their numbers of names: another name of a file would reveal its content.
func (l Locator) Inodes() map[fspath.Inode]uint64 {
	const most = 10_000 // entries; folders of credentials are small
	out := map[fspath.Inode]uint64{}
	look := func(path string) {
		left := most
		_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
			if left--; err != nil || left < 0 {
				return fs.SkipAll
			}
			if id, links, ok := fspath.LinkCount(p); ok && e.Type().IsRegular() {
				out[id.Inode()] = links
			}
			return nil
		})
	}
	for _, p := range l.Paths() {
		look(fspath.Resolve(p))
	}
	if l.Home != "" {
		look(filepath.Join(l.Home, "secrets"))
	}
	return out
}

// IsKey reports whether path is hidden because it holds keys, or is inside such a path. A path above one does not count: a person
// who allowed reading it was not asked about the keys.
func IsKey(path string, keys []Key) bool {
	return slices.Contains(MachineFiles, path) || fspath.BelowAny(path, MachineFiles) ||
		slices.ContainsFunc(keys, func(k Key) bool { return k.Path == path || fspath.Below(path, k.Path) })
}
