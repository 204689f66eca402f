// Package trust stores which project configurations the user has trusted.
//
// It owns the list in gantry's home and the digest that ties trust to content. It does not know what a configuration says or how
// the user is asked.
//
// Trust applies to a folder and the exact content of its configuration and lock file. When any of it changes, for example with a
// pull, the project is no longer trusted and its configuration is ignored until the user has reviewed it again. Start with
// [Digest] and [Store].
package trust

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/config/internal/durable"
)

// Digest returns the digest that trust applies to: "t1:" and the base64 SHA-256 of the names, lengths and contents of files.
func Digest(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var length [8]byte
		for _, part := range [][]byte{[]byte(name), files[name]} {
			binary.BigEndian.PutUint64(length[:], uint64(len(part)))
			h.Write(length[:])
			h.Write(part)
		}
	}
	return "t1:" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Project is a trusted project.
type Project struct {
	Dir    string    `json:"dir"`    // absolute, with symbolic links resolved
	Digest string    `json:"digest"` // see [Digest]
	At     time.Time `json:"at"`
}

// Store is the list of trusted projects, stored in a file. Its methods are safe for concurrent use by goroutines and processes.
type Store struct{ path string }

// Open returns the store in gantry's home folder. The first change creates the file.
func Open(home string) *Store { return &Store{path: filepath.Join(home, "trusted.json")} }

type fileJSON struct {
	Version  int       `json:"version"`
	Projects []Project `json:"projects"`
}

// Trusted reports whether the user has trusted a project with this digest. If the list cannot be read, no project is trusted;
// [Store.List] returns the error.
func (s *Store) Trusted(dir, digest string) bool {
	projects, err := s.List()
	if err != nil {
		return false
	}
	dir, err = resolve(dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(projects, func(p Project) bool { return p.Dir == dir && p.Digest == digest })
}

// List returns the trusted projects, sorted by folder.
func (s *Store) List() ([]Project, error) {
	b, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read trusted projects: %w", err)
	}
	return s.parse(b)
}

func (s *Store) parse(b []byte) ([]Project, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var f fileJSON
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("read %s: %w; delete the file to start again", s.path, err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("read %s: it has version %d, but this gantry only supports version 1; update gantry", s.path, f.Version)
	}
	return f.Projects, nil
}

// Add trusts a project. It replaces the previous digest of the same folder.
func (s *Store) Add(ctx context.Context, dir, digest string) error {
	dir, err := resolve(dir)
	if err != nil {
		return fmt.Errorf("trust %s: %w", dir, err)
	}
	return s.update(ctx, func(ps []Project) []Project {
		ps = slices.DeleteFunc(ps, func(p Project) bool { return p.Dir == dir })
		return append(ps, Project{Dir: dir, Digest: digest, At: time.Now().UTC().Truncate(time.Second)})
	})
}

// Remove withdraws the trust in a project and reports whether it was trusted.
func (s *Store) Remove(ctx context.Context, dir string) (removed bool, err error) {
	// If the folder no longer exists, use its name as given.
	if real, err := resolve(dir); err == nil {
		dir = real
	}
	err = s.update(ctx, func(ps []Project) []Project {
		before := len(ps)
		ps = slices.DeleteFunc(ps, func(p Project) bool { return p.Dir == dir })
		removed = len(ps) < before
		return ps
	})
	return removed, err
}

// Renew replaces the digest of a folder after gantry itself changed its content for the user, for example its lock file. It does
// nothing unless the previous content was trusted.
func (s *Store) Renew(ctx context.Context, dir, before, after string) error {
	dir, err := resolve(dir)
	if err != nil {
		return fmt.Errorf("trust %s: %w", dir, err)
	}
	return s.update(ctx, func(ps []Project) []Project {
		for i := range ps {
			if ps[i].Dir == dir && ps[i].Digest == before {
				ps[i].Digest = after
			}
		}
		return ps
	})
}

func (s *Store) update(ctx context.Context, change func([]Project) []Project) error {
	err := durable.Update(ctx, s.path, 0o600, func(old []byte) ([]byte, error) {
		ps, err := s.parse(old)
		if err != nil {
			return nil, err
		}
		ps = change(ps)
		slices.SortFunc(ps, func(a, b Project) int { return cmp.Compare(a.Dir, b.Dir) })
		if ps == nil {
			ps = []Project{}
		}
		b, err := json.MarshalIndent(fileJSON{Version: 1, Projects: ps}, "", "  ")
		return append(b, '\n'), err
	})
	if err != nil {
		return fmt.Errorf("record trusted projects: %w", err)
	}
	return nil
}

// resolve returns the unique name of a folder, so that symbolic links to it share its trust.
func resolve(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir, err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return dir, err
	}
	return real, nil
}
