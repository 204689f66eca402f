package box

import (
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Kept says why a grant's sandbox keeps a path in one of its writable roots read-only, or returns "". It looks at the files as they
// are now. home is the user's home folder, environ the user's environment.
func Kept(g launch.Grant, home string, environ []string, path string) string {
	return kept(g, home, environ, path, false)
}

// KeptIn is like Kept for a folder that is to be removed or moved: it also says why something in the folder is read-only, except for
// what [Reach] knows from its name.
func KeptIn(g launch.Grant, home string, environ []string, path string) string {
	return kept(g, home, environ, path, true)
}

// kept is Kept; with within, also for what is below path.
func kept(g launch.Grant, home string, environ []string, path string, within bool) string {
	if g.Mode != WorkspaceWrite || !filepath.IsAbs(path) {
		return ""
	}
	path = fspath.ResolveParent(path)
	var roots []string
	for _, r := range g.WritableRoots {
		roots = append(roots, fspath.Resolve(r))
	}
	root := fspath.Deepest(roots, path)
	if root == "" || root == path {
		return ""
	}
	if denied, err := match(g.DenyWrite, path); err == nil && len(denied) > len(root) {
		return "sandbox { deny_write } names it"
	}
	if !unprotected(root, path) {
		return "files there are executed later, or say what agents and other programs may do"
	}
	home = fspath.Resolve(home)
	if home != "" {
		for _, p := range autorun.StartupFiles(home) {
			if fspath.Below(p, root) && (p == path || fspath.Below(path, p) || within && fspath.Below(p, path)) {
				return "your shells or other programs execute it"
			}
		}
	}
	n := autorun.NewReferences(home, environ)
	list := n.InPath(roots)
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if own, top := autorun.EnclosingRepository(dir); own != "" {
			dir = top
			more, err := n.Of(own, top)
			if err != nil {
				return err.Error()
			}
			list = append(list, more...)
		}
		if dir == root || !fspath.Below(dir, root) {
			break
		}
	}
	for _, t := range list {
		for _, p := range []string{fspath.ResolveParent(t.Path), fspath.Resolve(t.Path)} {
			if p == path || t.Folder && fspath.Below(path, p) && fspath.Below(p, root) || within && fspath.Below(p, path) {
				return t.Why
			}
		}
	}
	return ""
}
