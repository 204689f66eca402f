package box

import (
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// Kept says why a grant's box keeps a path read-only that lies in one of its writable roots; empty: it does not. It looks at the machine's
// files as they are now: home is the user's, environ the user's environment.
func Kept(g launch.Grant, home string, environ []string, path string) string {
	if g.Mode != WorkspaceWrite || !filepath.IsAbs(path) {
		return ""
	}
	path = realParent(path)
	var roots []string
	for _, r := range g.WritableRoots {
		roots = append(roots, real(r))
	}
	root := nearest(roots, path)
	if root == "" || root == path {
		return ""
	}
	if denied, err := match(g.DenyWrite, path); err == nil && len(denied) > len(root) {
		return "sandbox { deny_write } names it"
	}
	if !unprotected(root, path) {
		return "what lies there is executed later, or says what agents and other programs may do"
	}
	home = real(home)
	if home != "" {
		for _, p := range atHome(home) {
			if below(p, root) && (p == path || below(path, p)) {
				return "your shells, or other programs, execute it"
			}
		}
	}
	n := newNamer(home, environ)
	list := n.inPath(roots)
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if own, top := enclosing(dir); own != "" {
			dir = top
			more, err := n.repository(own, top)
			if err != nil {
				return err.Error()
			}
			list = append(list, more...)
		}
		if dir == root || !below(dir, root) {
			break
		}
	}
	for _, t := range list {
		for _, p := range []string{realParent(t.path), real(t.path)} {
			if p == path || t.folder && below(path, p) && below(p, root) {
				return t.why
			}
		}
	}
	return ""
}
