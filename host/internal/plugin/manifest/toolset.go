package manifest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// maxToolSets bounds the cache of tool sets. Beyond it the oldest entry is removed.
const maxToolSets = 256

// ToolSets stores the last tool set of each program and configuration, as the plugin sent it.
type ToolSets struct {
	store
	limit int
}

// NewToolSets returns the cache in the folder path. If path is empty, nothing is cached.
func NewToolSets(path, hostVersion string) ToolSets {
	if path == "" {
		return ToolSets{}
	}
	return ToolSets{store{filepath.Join(path, "tools"), hostVersion}, maxToolSets}
}

// ToolSetKey identifies everything that determines which tools a plugin offers: its [Program], its configuration block as
// JSON, in which secrets are handles, and the environment that its block sets.
func ToolSetKey(program string, config []byte, env map[string]string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(config), config)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(env[name]), env[name])
	}
	return fmt.Sprintf("%s-%x", program, h.Sum(nil)[:12])
}

// Get returns nil if there is no entry.
func (c ToolSets) Get(key string) []byte { return c.read(key) }

// Put stores the tool set set, and removes the oldest entries beyond the limit.
func (c ToolSets) Put(key string, set []byte) error {
	if old := c.read(key); c.dir == "" || old != nil && bytes.Equal(old, set) {
		return nil
	}
	return errors.Join(c.write(key, set), c.prune())
}

func (c ToolSets) prune() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) <= c.limit {
		return err
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // otherwise another host has just removed it
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	var errs []error
	for _, info := range infos[:max(0, len(infos)-c.limit)] {
		if err := os.Remove(filepath.Join(c.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
