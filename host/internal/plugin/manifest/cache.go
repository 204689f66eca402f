// Package manifest caches the manifests and the tool sets of plugins by program, so that listing tools and checking the
// configuration start no process, and describes how two manifests differ.
//
// It owns: the keys, files and sizes of both caches. It must not know: how plugins are started, what tools are.
//
// Start with [NewCache] and [Program].
package manifest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/host/internal/plugin/environment"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Program identifies the code that a plugin runs: its executable, which has the digest sum, and, if that is an interpreter,
// the program that it interprets. Therefore the result also depends on the arguments, on the content of the first file that
// they name (a script, an archive), and on the variables that change which code is loaded. Only absolute paths are taken for
// file names, because a plugin's working folder contains no code. All other variables are configuration, which a manifest
// must not depend on.
func Program(sum string, args []string, env map[string]string, records binary.Records) string {
	var more []string
	script := false
	for _, arg := range args {
		more = append(more, "argument", arg)
		if script || !filepath.IsAbs(arg) {
			continue
		}
		if content, err := binary.Digest(arg, records); err == nil {
			more = append(more, "content", content)
			script = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if environment.LoadsCode(name) {
			more = append(more, "variable", name+"="+env[name])
		}
	}
	if len(more) == 0 {
		return sum
	}
	h := sha256.New()
	for _, s := range more {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return fmt.Sprintf("%s-%x", sum, h.Sum(nil)[:8])
}

// store is a folder with one file for each key. An empty dir stores nothing.
//
// Entries are valid for one version of the host, so those that are read have passed this host's own checks.
type store struct{ dir, hostVersion string }

func (s store) file(key string) string {
	host := sha256.Sum256([]byte(s.hostVersion))
	return filepath.Join(s.dir, fmt.Sprintf("%s-v%d-%s-%s-%x.json", key, contract.Version, runtime.GOOS, runtime.GOARCH, host[:4]))
}

// read returns nil if there is no entry.
func (s store) read(key string) []byte {
	if s.dir == "" {
		return nil
	}
	b, err := os.ReadFile(s.file(key))
	if err != nil {
		return nil
	}
	return b
}

func (s store) write(key string, b []byte) error {
	if s.dir == "" {
		return nil
	}
	return binary.WriteFile(s.file(key), b)
}

// Cache stores the manifest of each [Program].
type Cache struct{ store }

// NewCache returns the cache in the folder path. If path is empty, nothing is cached.
func NewCache(path, hostVersion string) Cache {
	if path == "" {
		return Cache{}
	}
	return Cache{store{filepath.Join(path, "manifests"), hostVersion}}
}

// Contains reports whether the entry of program is exactly this manifest. That is the usual case, and needs no parsing.
func (c Cache) Contains(program string, canonical []byte) bool {
	b := c.read(program)
	return b != nil && bytes.Equal(b, canonical)
}

// Get returns nil if there is no entry, or if it is damaged. The next start of the plugin replaces a damaged one.
func (c Cache) Get(program string) *contract.Manifest {
	b := c.read(program)
	if b == nil {
		return nil
	}
	m, err := contract.ParseManifest(b)
	if err != nil {
		return nil
	}
	return m
}

// Put stores the manifest of program.
func (c Cache) Put(program string, m *contract.Manifest) error {
	return c.write(program, m.Canonical())
}

// Remove removes the entry of program.
func (c Cache) Remove(program string) error {
	if c.dir == "" {
		return nil
	}
	if err := os.Remove(c.file(program)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
