package box

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/secrets"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
)

// Access is what a sandboxed process may do with a path.
type Access int

// The kinds of access. Each includes the ones before it.
const (
	AccessUnknown Access = iota
	AccessNone
	AccessRead
	AccessWrite
)

// linuxFolders are the folders without which programs do not run, visible even where reading is restricted.
var linuxFolders = []string{"/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix/store", "/run/current-system/sw", "/dev", "/proc"}

// narrowFolders are what a narrow sandbox shows of them: programs, and of the settings those that a browser needs.
var narrowFolders = []string{
	"/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system/sw", "/opt/google",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/chromium", "/etc/chromium.d", "/etc/crypto-policies", "/etc/fonts", "/etc/ld.so.cache",
	"/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/opt/chrome", "/etc/pki", "/etc/ssl/certs",
}

// systemFolders returns those of this system.
func systemFolders() []string {
	if seatbelt.Native {
		return macOSFolders
	}
	return linuxFolders
}

// ownTmp returns the folders that every writable sandbox has for itself, by the path inside the sandbox.
func ownTmp() []string {
	if seatbelt.Native { // macOS's sandbox can't show a folder under another path; TMPDIR names it
		return nil
	}
	return []string{"/tmp"}
}

// Reach returns the access that a grant gives to a path, judged by the path alone: resolving symbolic links is up to the sandbox.
// Of the roots and denials above the path the deepest applies, and of equally deep ones the strictest. An invalid pattern denies
// everything.
func Reach(g launch.Grant, path string) Access {
	path = filepath.Clean(path)
	denied, err := match(g.DenyRead, path)
	kept, err2 := match(g.DenyWrite, path)
	if g.Mode == launch.FullAccess {
		kept = ""
	}
	if err != nil || err2 != nil || !filepath.IsAbs(path) {
		return AccessNone
	}
	writable := ""
	switch {
	case g.Mode == launch.FullAccess:
		writable = "/"
	case g.Mode == WorkspaceWrite:
		writable = fspath.Deepest(slices.Concat(g.WritableRoots, ownTmp()), path)
	}
	readable := "/"
	if len(g.ReadableRoots) > 0 && g.Mode != launch.FullAccess {
		readable = fspath.Deepest(slices.Concat(g.ReadableRoots, g.WritableRoots, systemFolders(), ownTmp()), path)
	}
	switch {
	case denied != "" && len(denied) >= max(len(writable), len(readable)):
		return AccessNone
	case slices.Contains(g.Opened, path):
		return AccessWrite
	case writable != "" && len(writable) >= len(readable) && (kept == "" || len(kept) < len(writable)):
		if g.Mode == launch.FullAccess || unprotected(writable, path) {
			return AccessWrite
		}
		return AccessRead
	case readable != "" || writable != "":
		return AccessRead
	}
	return AccessNone
}

// match returns the deepest match of patterns that path is in or equal to, or "".
func match(patterns []string, path string) (string, error) {
	out := ""
	for _, text := range patterns {
		p, err := glob.Parse(text)
		if err != nil {
			return "", err
		}
		if m := p.Match(path); len(m) > len(out) {
			out = m
		}
	}
	return out, nil
}

// unprotected reports whether no element of path below the writable root is protected.
func unprotected(root, path string) bool {
	names := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, root), "/"), "/")
	if slices.Contains(Protected, names[0]) {
		return false
	}
	for i, name := range names {
		switch rest := strings.Join(names[i+1:], "/"); {
		case autorun.VCSSettings[name] != nil:
			if slices.ContainsFunc(autorun.VCSSettings[name], func(o string) bool { return rest == o || fspath.Below(rest, o) }) {
				return false
			}
		case !slices.Contains(autorun.NestedNames, name):
		case name != ".git" || i == len(names)-1: // a file that says where the repository is
			return false
		case slices.Contains([]string{"hooks", "config", "config.worktree"}, names[i+1]):
			return false
		}
	}
	return true
}

// Hidden returns a function that reports whether a grant's sandbox hides a path by default: keys, gantry's own folder, services'
// sockets, what the machine and its other processes have in /proc, /dev and /tmp. What the configuration denies is up to [Reach]. Paths
// are absolute and without symbolic links. Under full access nothing is hidden.
func (b *Sandbox) Hidden(g launch.Grant) func(path string) bool {
	if g.Mode == launch.FullAccess {
		return func(string) bool { return false }
	}
	resolve := func(paths []string) (out []string) {
		for _, p := range paths {
			out = append(out, fspath.Resolve(p))
		}
		return out
	}
	v := view{keys: b.locator.Locate(), shown: resolve(g.Shown), read: resolve(g.ReadableRoots)}
	if g.Mode == WorkspaceWrite {
		v.roots = resolve(g.WritableRoots)
	}
	ownTmp := g.Mode == WorkspaceWrite || len(v.read) > 0
	return func(path string) bool {
		inside := func(dirs ...string) bool { return fspath.Deepest(dirs, path) != "" }
		switch {
		case b.home != "" && inside(b.home):
			return !inside(filepath.Join(b.home, "plugins"))
		case inside(v.shown...):
			return false
		case secrets.IsKey(path, v.keys):
			return !b.worksAmongKeys(path, v)
		case b.seatbelt:
			return inside(secrets.HiddenOnMacOS...) && !inside(secrets.ShownOnMacOS...)
		case inside(v.roots...):
			return false
		case inside("/run", "/proc", "/dev"):
			return !inside(shownInRun...)
		case inside("/tmp") && ownTmp:
			return !inside(v.read...)
		}
		return false
	}
}
