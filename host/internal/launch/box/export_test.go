package box

import (
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
)

// HarmlessSettings is for tests.
func HarmlessSettings(b []byte) []byte { return harmlessSettings(b, filepath.IsLocal) }

// Walker is for tests.
type Walker struct{ w walker }

// Walk returns how many folders it knows.
func (w *Walker) Walk(root string) int {
	return w.w.walk([]string{root}, nil).seen
}

// MoveAside is for tests.
func MoveAside(root, path string) (*Moved, error) {
	return part{root: root, path: path, kind: kindFolder}.moveAside()
}

// Narrow is for tests.
func Narrow(roots, names []string) ([]string, error) {
	m := map[string]file{}
	for i, n := range names {
		m[n] = file{1, uint64(i)}
	}
	return narrow(roots, m)
}

// Meant is for tests.
func Meant(dir, name string) string { return (&folder{path: dir}).meant(name) }

// NewSeatbelt makes boxes for macOS's sandbox, whatever system this is.
func NewSeatbelt(cfg Config) *Box {
	b := New(cfg)
	b.seatbelt = true
	return b
}

// Folders is for tests.
type Folders struct {
	Names func(string) []string
	Same  func(a, b string) bool
}

// Spelled is for tests.
func (f Folders) Spelled(path string) string { return folders{f.Names, f.Same}.spelled(path) }

// CagePolicy is a plugin's cage on macOS.
func CagePolicy(cfg CageConfig) seatbelt.Policy { return cagePolicy(cfg) }

// WithLandlock is a box on a kernel that has this version of Landlock.
func (b *Box) WithLandlock(version int) *Box {
	b.landlock = func() int { return version }
	return b
}
