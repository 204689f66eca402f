package rig

import (
	"os"
	"path/filepath"

	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/version"
)

// Program writes an executable file to the home folder and returns its path.
func (r *Rig) Program(name, content string) string {
	r.t.Helper()
	path := filepath.Join(r.Home, "bin", name)
	r.Write(path, content)
	if err := os.Chmod(path, 0o755); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// Pin locks a program without starting it, for programs that cannot be started.
func (r *Rig) Pin(path string) {
	r.t.Helper()
	sum, err := lock.HashFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	v, err := version.Parse("1.0.0")
	if err != nil {
		r.t.Fatal(err)
	}
	err = lock.Update(r.t.Context(), filepath.Join(r.Home, lock.FileName), func(f *lock.File) error {
		return f.Put(lock.Entry{
			Address: path, Version: v, Platforms: map[string]lock.Hashes{lock.Platform(): {Binary: []lock.Hash{sum}}},
		})
	})
	if err != nil {
		r.t.Fatal(err)
	}
}
