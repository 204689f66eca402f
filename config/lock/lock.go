// Package lock reads and writes gantry.lock.hcl, which records the content that each plugin program must have.
//
// It owns the file's grammar, its canonical form, the permitted changes, and the comparison of a program with its entry. It does
// not know how programs are found, built or started, what permissions mean, or who is asked for consent.
//
// The file has one block per program, in sorted order, and each value is on its own line in a form that does not depend on other
// lines, so that two branches that lock different programs merge without conflicts. Start with [Read] and [Update].
package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/durable"
)

// FileName is the name of a lock file, which is in the same folder as the configuration file.
const FileName = "gantry.lock.hcl"

// File is the content of a lock file. It is not safe for concurrent modification.
type File struct {
	name      string
	entries   map[string]Entry
	processes map[string]Process
}

// New returns an empty lock that messages call name.
func New(name string) *File {
	return &File{name: name, entries: map[string]Entry{}, processes: map[string]Process{}}
}

// Read reads a lock file. A missing file is an empty lock. If there are errors, the File is nil: a lock that cannot be parsed
// allows nothing.
func Read(path string) (*File, diag.Diagnostics) {
	src, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return New(path), nil
	}
	if err != nil {
		return nil, diag.Diagnostics{{
			Severity: diag.Error, Summary: "the lock file can't be read", Detail: err.Error() + ".",
			Range: diag.Range{File: path}, Next: "make the file readable, or delete it and lock the plugins again",
		}}
	}
	return Parse(src, path)
}

// Update reads the lock file, applies change, and writes the result in canonical form while it holds the file's lock.
func Update(ctx context.Context, path string, change func(*File) error) error {
	// Mode 0644: the file contains no secrets and is meant to be committed.
	return durable.Update(ctx, path, 0o644, func(old []byte) ([]byte, error) {
		f, ds := Parse(old, path)
		if err := ds.Err(); err != nil {
			return nil, err
		}
		if err := change(f); err != nil {
			return nil, err
		}
		return f.Bytes(), nil
	})
}

// Name returns the file's name in messages.
func (f *File) Name() string { return f.name }

// Entry returns the entry of an address.
func (f *File) Entry(address string) (Entry, bool) {
	e, ok := f.entries[address]
	if !ok {
		return Entry{}, false
	}
	return e.clone(), true
}

// Entries returns all entries, sorted by address.
func (f *File) Entries() []Entry {
	out := make([]Entry, 0, len(f.entries))
	for _, address := range slices.Sorted(maps.Keys(f.entries)) {
		out = append(out, f.entries[address].clone())
	}
	return out
}

// Process returns the entry of a declared process.
func (f *File) Process(name string) (Process, bool) {
	p, ok := f.processes[name]
	p.Programs = slices.Clone(p.Programs)
	return p, ok
}

// Processes returns the entries of all declared processes, sorted by name.
func (f *File) Processes() []Process {
	out := make([]Process, 0, len(f.processes))
	for _, name := range slices.Sorted(maps.Keys(f.processes)) {
		p, _ := f.Process(name)
		out = append(out, p)
	}
	return out
}

// PutProcess adds or replaces the entry of a declared process. Programs of other machines are kept if the content is unchanged.
func (f *File) PutProcess(p Process) error {
	if old, ok := f.processes[p.Name]; ok && old.Content == p.Content {
		p.Programs = append(slices.Clone(p.Programs), old.Programs...)
	}
	p.Programs = union(p.Programs)
	for _, h := range append([]Hash{p.Content}, p.Programs...) {
		if err := h.check(); err != nil {
			return fmt.Errorf("lock process %q: %w", p.Name, err)
		}
	}
	f.processes[p.Name] = p
	return nil
}

// Put adds or replaces an entry. Hashes for platforms that e lacks are kept if the version is unchanged; hashes of another version
// are dropped.
func (f *File) Put(e Entry) error {
	e = e.clone()
	if old, ok := f.entries[e.Address]; ok && old.Version == e.Version {
		for name, h := range old.Platforms {
			if _, ok := e.Platforms[name]; !ok {
				e.Platforms[name] = h
			}
		}
	}
	if err := e.check(); err != nil {
		return err
	}
	f.entries[e.Address] = e
	return nil
}

// Remove removes an entry and reports whether it existed.
func (f *File) Remove(address string) bool {
	_, ok := f.entries[address]
	delete(f.entries, address)
	return ok
}

// Prune removes the entries of programs that no block uses, and returns their addresses.
func (f *File) Prune(used []string) (dropped []string) {
	for _, address := range slices.Sorted(maps.Keys(f.entries)) {
		if !slices.Contains(used, address) {
			delete(f.entries, address)
			dropped = append(dropped, address)
		}
	}
	return dropped
}

// PruneProcesses removes the entries of declared processes that are not used, and returns their names.
func (f *File) PruneProcesses(used func(name string) bool) (dropped []string) {
	for _, name := range slices.Sorted(maps.Keys(f.processes)) {
		if !used(name) {
			delete(f.processes, name)
			dropped = append(dropped, name)
		}
	}
	return dropped
}

// check returns an error if the entry cannot be written.
func (e Entry) check() error {
	if _, err := parseAddress(e.Address); err != nil {
		return err
	}
	if e.Version.IsZero() {
		return fmt.Errorf("lock %q: the version is missing", e.Address)
	}
	for name, h := range e.Platforms {
		if !validPlatform(name) {
			return fmt.Errorf("lock %q: %q is not a platform like \"linux_amd64\"", e.Address, name)
		}
		for _, hash := range slices.Concat(h.Binary, h.Package) {
			if err := hash.check(); err != nil {
				return fmt.Errorf("lock %q: %w", e.Address, err)
			}
		}
	}
	for _, hash := range []Hash{e.Manifest, e.Grants} {
		if hash == "" {
			continue
		}
		if err := hash.check(); err != nil {
			return fmt.Errorf("lock %q: %w", e.Address, err)
		}
	}
	return nil
}
