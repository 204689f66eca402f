package launch

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/glob"
)

// CouldChange returns the owner of a running sandboxed process that can write one of these files or folders, because it was started
// before they were protected. It ignores processes with full access, which can write everything.
func (l *Launcher) CouldChange(paths []string) (owner Owner, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.mu.procs {
		if p.status.ended || p.spec.ReadOnly || p.spec.Grant.Mode == FullAccess {
			continue
		}
		if slices.ContainsFunc(paths, p.spec.Grant.writes) {
			return p.spec.Owner, true
		}
	}
	return Owner{}, false
}

// writes reports whether a path is in a writable root, and is not excluded from it.
func (g Grant) writes(path string) bool {
	in := func(dir string) bool {
		rel, err := filepath.Rel(dir, path)
		return err == nil && filepath.IsLocal(rel)
	}
	if !slices.ContainsFunc(g.WritableRoots, func(r string) bool {
		real, err := filepath.EvalSymlinks(r)
		return in(r) || err == nil && in(real)
	}) {
		return false
	}
	return !slices.ContainsFunc(g.DenyWrite, func(d string) bool {
		quoted := glob.Quote(path)
		return quoted == d || strings.HasPrefix(quoted, strings.TrimSuffix(d, "/")+"/")
	})
}
