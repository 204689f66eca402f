package hookconfig

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/hook"
)

// maxHeld limits for how many folders and sets of agreements the result is cached. Beyond it, the cache is cleared.
const maxHeld = 64

// Held finds the files that agreed hooks run. Commands in a sandbox must not change them.
type Held struct {
	found   []hook.Definition
	home    string
	unasked func(*hook.Definition) bool // hooks that run without agreement; nil: only managed ones
	environ func() []string

	mu    sync.Mutex
	known map[string][]string // by folder and agreements
}

// NewHeld returns the files of hooks. home contains the user's agreements, environ is the environment of hooks.
func NewHeld(found []hook.Definition, home string, unasked func(*hook.Definition) bool, environ func() []string) *Held {
	return &Held{found: found, home: home, unasked: unasked, environ: environ, known: map[string][]string{}}
}

// Files returns the files that hooks run in a folder.
func (h *Held) Files(dir string) []string {
	if len(h.found) == 0 {
		return nil
	}
	agreed, err := Agreed(h.home)
	if err != nil {
		agreed = nil // only managed hooks run
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var key strings.Builder
	key.WriteString(dir)
	for _, k := range slices.Sorted(maps.Keys(agreed)) {
		key.WriteString("\x00" + k + "\x00" + agreed[k])
	}
	if held, ok := h.known[key.String()]; ok {
		return held
	}
	var held []string
	keep, env := true, h.environ()
	for i := range h.found {
		d := &h.found[i]
		was, ok := agreed[d.Key]
		if !ok && d.Scope != hook.Managed && (h.unasked == nil || !h.unasked(d)) || d.Command == "" {
			continue
		}
		// The files found now are the ones that the user agreed to only while the digest is the same. Otherwise don't cache them.
		is, set, err := d.Digest(dir, env)
		keep = keep && err == nil && is == was
		for _, path := range set.Held() {
			if !slices.Contains(held, path) {
				held = append(held, path)
			}
		}
	}
	if len(h.known) >= maxHeld {
		clear(h.known)
	}
	if keep {
		h.known[key.String()] = held
	}
	return held
}

// AllHeld returns the files and folders that agreed hooks and the configuration itself run and read in a folder.
func AllHeld(c *config.Config, home, dir string, environ []string) []string {
	found, _ := Load(c)
	return append(c.Held(), NewHeld(found, home, nil, func() []string { return environ }).Files(dir)...)
}
