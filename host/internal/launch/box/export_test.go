package box

import (
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/launch/box/pluginbox"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
)

// HarmlessSettings is for tests.
func HarmlessSettings(b []byte) []byte { return harmlessSettings(b, filepath.IsLocal) }

// MoveAside is for tests.
func MoveAside(root, path string) (*Moved, error) {
	return part{root: root, path: path, kind: kindFolder}.moveAside()
}

// Narrow is for tests: the names of folders that are not kept as wholes are as they are given.
func Narrow(roots, names []string) ([]string, error) {
	counts := map[string]int{}
	for _, n := range names {
		counts[filepath.Dir(n)]++
	}
	hold, single, err := narrow(roots, counts)
	for _, n := range names {
		if slices.Contains(single, filepath.Dir(n)) {
			hold = append(hold, n)
		}
	}
	return hold, err
}

// NewSeatbelt makes boxes for macOS's sandbox, whatever system this is.
func NewSeatbelt(cfg Config) *Box {
	b := New(cfg)
	b.seatbelt, b.locator.MacOS = true, true
	return b
}

// CagePolicy is a plugin's cage on macOS.
func CagePolicy(cfg pluginbox.Config) seatbelt.Policy { return pluginbox.Policy(cfg) }

// WithLandlock is a box on a kernel that has this version of Landlock.
func (b *Box) WithLandlock(version int) *Box {
	b.landlock = func() int { return version }
	return b
}

// Killed is the end of a process that had no time to do anything: nothing is judged any more, and its locks are gone.
func (b *Box) Killed() {
	h := &b.guests
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = nil
	for _, at := range h.grounds {
		if at.mark != nil {
			at.mark.leave()
		}
		at.mark = nil
		at.forget()
	}
	if f := h.marks.held(); f != nil {
		h.marks.mu.Lock()
		h.marks.pipe = nil
		h.marks.mu.Unlock()
		f.Close()
	}
}

// Alone returns when nothing is left of gantries that were killed.
func (b *Box) Alone() { b.guests.leaving.Wait() }

// Walk has nothing watched.
func (b *Box) Walk() *Box {
	b.guests.index.walk = true
	return b
}
