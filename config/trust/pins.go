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

// Pin is the content that the user has accepted of something that gantry runs.
type Pin struct {
	Key    string    `json:"key"`    // identifies a hook by where it is defined, and a declared process by its plugin and name
	Digest string    `json:"digest"` // of what it runs
	At     time.Time `json:"at"`
}

// Pins is a list of what the user has accepted, stored in a file. Its methods are safe for concurrent use by goroutines and processes.
type Pins struct {
	path string
	what string // for messages, and the name of the list in the file
}

// OpenHooks returns the accepted hooks, which are stored in gantry's home folder. The first change creates the file.
func OpenHooks(home string) *Pins { return &Pins{filepath.Join(home, "trusted-hooks.json"), "hooks"} }

// OpenProcesses returns the accepted processes that plugins' blocks declare outside of projects, like [OpenHooks].
func OpenProcesses(home string) *Pins {
	return &Pins{filepath.Join(home, "trusted-processes.json"), "processes"}
}

type pinsJSON struct {
	Version   int   `json:"version"`
	Hooks     []Pin `json:"hooks,omitempty"`
	Processes []Pin `json:"processes,omitempty"`
}

// of returns the list of a store in its file.
func (f *pinsJSON) of(s *Pins) *[]Pin {
	if s.what == "processes" {
		return &f.Processes
	}
	return &f.Hooks
}

// List returns the accepted content, sorted by key.
func (s *Pins) List() ([]Pin, error) {
	b, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read trusted %s: %w", s.what, err)
	}
	return s.parse(b)
}

func (s *Pins) parse(b []byte) ([]Pin, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var f pinsJSON
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("read %s: %w; delete the file to start again", s.path, err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("read %s: it has version %d, but this gantry only supports version 1; update gantry", s.path, f.Version)
	}
	return *f.of(s), nil
}

// Add accepts content, given as digests by key. It replaces previous digests of the same keys.
func (s *Pins) Add(ctx context.Context, digests map[string]string) error {
	now := time.Now().UTC().Truncate(time.Second)
	return s.update(ctx, func(hs []Pin) []Pin {
		hs = slices.DeleteFunc(hs, func(h Pin) bool { _, again := digests[h.Key]; return again })
		for key, digest := range digests {
			hs = append(hs, Pin{Key: key, Digest: digest, At: now})
		}
		return hs
	})
}

// Remove withdraws the consent and returns to how many it was given.
func (s *Pins) Remove(ctx context.Context, keys ...string) (removed int, err error) {
	err = s.update(ctx, func(hs []Pin) []Pin {
		before := len(hs)
		hs = slices.DeleteFunc(hs, func(h Pin) bool { return slices.Contains(keys, h.Key) })
		removed = before - len(hs)
		return hs
	})
	return removed, err
}

func (s *Pins) update(ctx context.Context, change func([]Pin) []Pin) error {
	err := durable.Update(ctx, s.path, 0o600, func(old []byte) ([]byte, error) {
		hs, err := s.parse(old)
		if err != nil {
			return nil, err
		}
		hs = change(hs)
		slices.SortFunc(hs, func(a, b Pin) int { return cmp.Compare(a.Key, b.Key) })
		f := pinsJSON{Version: 1}
		*f.of(s) = hs
		b, err := json.MarshalIndent(f, "", "  ")
		return append(b, '\n'), err
	})
	if err != nil {
		return fmt.Errorf("record trusted %s: %w", s.what, err)
	}
	return nil
}
