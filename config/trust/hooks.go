package trust

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/config/internal/durable"
)

// Hook is a trusted hook.
type Hook struct {
	Key    string    `json:"key"`    // identifies where the hook is defined
	Digest string    `json:"digest"` // of what it runs
	At     time.Time `json:"at"`
}

// Hooks is the list of hooks that the user has trusted, stored in a file. Its methods are safe for concurrent use by goroutines
// and processes.
type Hooks struct{ path string }

// OpenHooks returns the list in gantry's home folder. The first change creates the file.
func OpenHooks(home string) *Hooks { return &Hooks{path: filepath.Join(home, "trusted-hooks.json")} }

type hooksJSON struct {
	Version int    `json:"version"`
	Hooks   []Hook `json:"hooks"`
}

// List returns the trusted hooks, sorted by key.
func (s *Hooks) List() ([]Hook, error) {
	b, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read trusted hooks: %w", err)
	}
	return s.parse(b)
}

func (s *Hooks) parse(b []byte) ([]Hook, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var f hooksJSON
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("read %s: %w; delete the file to start again", s.path, err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("read %s: it has version %d, but this gantry only supports version 1; update gantry", s.path, f.Version)
	}
	return f.Hooks, nil
}

// Add trusts hooks, given as digests by key. It replaces previous digests of the same keys.
func (s *Hooks) Add(ctx context.Context, digests map[string]string) error {
	now := time.Now().UTC().Truncate(time.Second)
	return s.update(ctx, func(hs []Hook) []Hook {
		hs = slices.DeleteFunc(hs, func(h Hook) bool { _, again := digests[h.Key]; return again })
		for key, digest := range digests {
			hs = append(hs, Hook{Key: key, Digest: digest, At: now})
		}
		return hs
	})
}

// Remove withdraws the trust in hooks and returns how many were trusted.
func (s *Hooks) Remove(ctx context.Context, keys ...string) (removed int, err error) {
	err = s.update(ctx, func(hs []Hook) []Hook {
		before := len(hs)
		hs = slices.DeleteFunc(hs, func(h Hook) bool { return slices.Contains(keys, h.Key) })
		removed = before - len(hs)
		return hs
	})
	return removed, err
}

func (s *Hooks) update(ctx context.Context, change func([]Hook) []Hook) error {
	err := durable.Update(ctx, s.path, 0o600, func(old []byte) ([]byte, error) {
		hs, err := s.parse(old)
		if err != nil {
			return nil, err
		}
		hs = change(hs)
		slices.SortFunc(hs, func(a, b Hook) int { return cmp.Compare(a.Key, b.Key) })
		if hs == nil {
			hs = []Hook{}
		}
		b, err := json.MarshalIndent(hooksJSON{Version: 1, Hooks: hs}, "", "  ")
		return append(b, '\n'), err
	})
	if err != nil {
		return fmt.Errorf("record trusted hooks: %w", err)
	}
	return nil
}
