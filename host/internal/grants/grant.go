// Package grants derives from the configuration what processes may do: commands in their sandbox, and the processes of plugins.
//
// It owns: the translation of sandbox settings, permissions and approvals into launch grants, the environment variables of
// processes, and the check that this machine can enforce a mode. It must not know: threads, turns, and who asked for an approval.
//
// Start with [For]; the pipeline of calls uses [Granter].
package grants

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// For returns what processes may do in cwd under a configuration and a sandbox mode. tmp is the folder that they see as /tmp; if it is
// empty, they see the machine's.
func For(c *config.Config, mode, cwd, tmp string) launch.Grant {
	l := c.Limits
	g := launch.Grant{
		Mode: mode, Network: c.Sandbox.Network || mode == launch.FullAccess, Proxied: Proxied(c, mode), Landlock: c.Sandbox.RequireLandlock,
		Limits: launch.Limits{
			MemoryBytes: l.MemoryBytes, MaxPids: l.Pids, CPUSeconds: int64(l.CPUTime.Seconds()), OpenFiles: l.OpenFiles,
			FileBytes: l.FileBytes, OutputBytes: l.OutputBytes,
		},
	}
	writable := append([]string{cwd}, slices.DeleteFunc(slices.Clone(c.Sandbox.WritableRoots), func(r string) bool { return r == cwd })...)
	roots := writable
	if len(c.Sandbox.ReadableRoots) > 0 {
		roots = slices.Concat(writable, c.Sandbox.ReadableRoots)
		g.ReadableRoots = roots
	}
	g.DenyRead, g.DenyWrite = anchored(c.Sandbox.DenyRead, roots), anchored(c.Sandbox.DenyWrite, roots)
	if mode == box.WorkspaceWrite {
		g.WritableRoots = writable
		g.Tmp = tmp
	}
	return g
}

// Proxied reports whether commands in a sandbox mode reach the network only through the host's proxy.
func Proxied(c *config.Config, mode string) bool {
	return c.Network.Mode == schema.NetworkProxy && mode != launch.FullAccess
}

// ForPlugin changes what [For] returns to what the processes may do that are started for a plugin, which may have settings of its own.
func ForPlugin(c *config.Config, g launch.Grant, plugin string) launch.Grant {
	b, ok := c.Plugin(plugin)
	if !ok {
		return g
	}
	g.Limits.MemoryBytes = cmp.Or(b.Spawns.MemoryBytes, g.Limits.MemoryBytes)
	if n := b.Spawns.Network; n != nil && g.Mode != launch.FullAccess {
		g.Network, g.Proxied = n.Mode == schema.NetworkFull, n.Mode == schema.NetworkProxy
	}
	return g
}

// NetworkMode returns the mode of the network settings that a plugin's block has for its processes; empty: it has none.
func NetworkMode(c *config.Config, plugin string) string {
	if b, ok := c.Plugin(plugin); ok && b.Spawns.Network != nil {
		return b.Spawns.Network.Mode
	}
	return ""
}

// anchored makes patterns absolute. A relative pattern applies below each of the roots.
func anchored(patterns, roots []string) []string {
	var out []string
	for _, p := range patterns {
		if filepath.IsAbs(p) {
			out = append(out, p)
			continue
		}
		for _, r := range roots {
			out = append(out, glob.Below(r, p))
		}
	}
	return out
}

// Protect makes files and folders read-only in a grant. Paths that don't exist or that lead through a symbolic link are left out: they
// are not the files that the user agreed to, and the sandbox can't protect them.
func Protect(grant launch.Grant, paths []string) launch.Grant {
	for _, p := range paths {
		if grant.Mode != box.WorkspaceWrite || !insideAny(grant.WritableRoots, p) {
			continue
		}
		if _, err := os.Lstat(p); err != nil || throughLink(p, grant.WritableRoots) {
			continue
		}
		grant.DenyWrite = append(slices.Clip(grant.DenyWrite), glob.Quote(p))
	}
	return grant
}

// throughLink reports whether a path below one of the roots leads through a symbolic link.
func throughLink(path string, roots []string) bool {
	for _, r := range roots {
		if !Inside(path, r) {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return true
		}
		root, err := filepath.EvalSymlinks(r)
		if err != nil {
			return true
		}
		rel, err := filepath.Rel(r, path)
		if err != nil || filepath.Join(root, rel) != real {
			return true
		}
	}
	return false
}

// WithPermissions adds permissions that were approved before the call. A path that has become a symbolic link since its approval is
// left out.
func WithPermissions(g launch.Grant, p policy.Permissions) launch.Grant {
	if p.Empty() {
		return g
	}
	same := func(paths []string) []string {
		return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
			real, err := filepath.EvalSymlinks(path)
			return err != nil || real != path
		})
	}
	dirs := slices.DeleteFunc(same(p.Write), func(path string) bool { return !isDir(path) })
	return withEffects(g, policy.Permissions{Read: same(p.Read), Write: dirs, Network: p.Network}.Effects())
}

// withEffects extends a grant by approved effects: writing to folders and to the folders of files, reading what is hidden by default,
// and network access.
func withEffects(g launch.Grant, effects []contract.Effect) launch.Grant {
	for _, e := range effects {
		switch e := e.(type) {
		case contract.WriteEffect:
			for _, p := range e.Paths {
				// An approved file opens its folder only if no root contains that folder already.
				dir, covered := p, slices.Contains[[]string]
				if !isDir(p) {
					g.Opened = append(slices.Clip(g.Opened), p)
					dir, covered = filepath.Dir(p), insideAny
				}
				for !isDir(dir) && dir != filepath.Dir(dir) {
					dir = filepath.Dir(dir)
				}
				if g.Mode != box.WorkspaceWrite || !covered(g.WritableRoots, dir) {
					g.Mode, g.WritableRoots = box.WorkspaceWrite, append(slices.Clip(g.WritableRoots), dir)
				}
			}
		case contract.ReadEffect:
			g.Shown = append(slices.Clip(g.Shown), e.Paths...)
			if len(g.ReadableRoots) > 0 {
				g.ReadableRoots = append(slices.Clip(g.ReadableRoots), e.Paths...)
			}
		case contract.NetworkEffect:
			if e.Host == policy.EveryHost && !g.Proxied { // with a proxy, approvals are for single hosts
				g.Network = true
			}
		}
	}
	return g
}

// insideAny reports whether a path is one of the roots or inside one, after symbolic links are resolved.
func insideAny(roots []string, path string) bool {
	resolved := func(path string) string {
		if r, err := filepath.EvalSymlinks(path); err == nil {
			return r
		}
		return path
	}
	return slices.ContainsFunc(roots, func(r string) bool { return Inside(resolved(path), resolved(r)) })
}

// Inside reports whether a path is a folder or inside it. Both are absolute.
func Inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
