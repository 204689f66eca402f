package grants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/environ"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/role"
)

// Granter implements [orchestrate.Granter] for the calls of a thread.
type Granter struct {
	Launcher *launch.Launcher
	Config   *config.Config
	Home     string                    // gantry's
	Environ  []string                  // the host's environment
	Held     func(dir string) []string // files that hooks run in a folder, which commands must not change; nil: none
	Tmp      func() (string, error)    // the thread's /tmp, which is created by the first call that needs it
	// Bounds returns what limits an agent now: the widest mode that it has without an approval, and bounds that no approval exceeds.
	// nil: nothing does.
	Bounds func() (mode string, b event.Bounds)
}

// Grant implements [orchestrate.Granter]. An escalation in the request has been approved.
func (g Granter) Grant(_ context.Context, r orchestrate.GrantRequest) (launch.Grant, error) {
	r, bounds := g.within(r)
	mode := r.Sandbox
	if r.Escalation != nil && r.Escalation.Unsandboxed {
		mode = launch.FullAccess
	}
	tmp := ""
	if mode == box.WorkspaceWrite {
		var err error
		if tmp, err = g.Tmp(); err != nil {
			return launch.Grant{}, err
		}
	}
	grant := ForPlugin(g.Config, For(g.Config, mode, r.Cwd, tmp), r.Plugin)
	if mode != launch.FullAccess {
		grant = WithPermissions(grant, r.Permitted)
		if r.Escalation != nil {
			grant = withEffects(grant, r.Escalation.Additional)
		}
	}
	grant = g.protect(narrowed(grant, bounds, r.Cwd), r.Cwd)
	return grant, g.Launcher.Check(grant)
}

// within narrows a request to the bounds of an agent.
func (g Granter) within(r orchestrate.GrantRequest) (orchestrate.GrantRequest, event.Bounds) {
	if g.Bounds == nil {
		return r, event.Bounds{}
	}
	mode, b := g.Bounds()
	r.Sandbox = role.Narrower(r.Sandbox, role.Narrower(mode, b.Sandbox))
	if role.Confines(b) {
		r.Escalation, r.Permitted = nil, policy.Permissions{}
	}
	return r, b
}

// narrowed applies the bounds of an agent to a grant.
func narrowed(grant launch.Grant, b event.Bounds, cwd string) launch.Grant {
	roots := slices.Concat([]string{cwd}, grant.WritableRoots, grant.ReadableRoots)
	grant.DenyRead = append(slices.Clip(grant.DenyRead), anchored(b.DenyRead, roots)...)
	grant.DenyWrite = append(slices.Clip(grant.DenyWrite), anchored(b.DenyWrite, roots)...)
	if b.NoNetwork {
		grant.Network, grant.Proxied, grant.Hosts = false, false, nil
	}
	return grant
}

// Command returns what the processes of a plugin's command may do, and their folder: read only, without the network, or, if the command
// has side effects that the user has confirmed, use the network and write in a folder of the plugin's own. That folder is outside of
// gantry's home, where sandboxed commands can't see anything. Where no sandbox works, only a plugin that comes with gantry, or one whose
// command was confirmed where the user has configured full access, starts processes.
func (g Granter) Command(label string, changes, builtIn bool) (grant launch.Grant, dir string, err error) {
	mode, tmp := box.ReadOnly, ""
	dir = "/"
	if changes {
		mode = box.WorkspaceWrite
		if dir, err = g.pluginFolder(label); err != nil {
			return grant, "", err
		}
		if tmp, err = g.Tmp(); err != nil {
			return grant, "", err
		}
	}
	grant = g.commandGrant(label, mode, dir, tmp, changes)
	err = g.Launcher.Check(grant)
	if err != nil && (builtIn || changes) && g.Config.Sandbox.Mode == launch.FullAccess {
		grant = g.commandGrant(label, launch.FullAccess, dir, "", changes)
		err = g.Launcher.Check(grant)
	}
	return grant, dir, err
}

func (g Granter) commandGrant(label, mode, dir, tmp string, changes bool) launch.Grant {
	grant := ForPlugin(g.Config, For(g.Config, mode, dir, tmp), label)
	if grant.Mode == box.WorkspaceWrite {
		grant.WritableRoots = []string{dir}
	}
	if mode != launch.FullAccess {
		own := NetworkMode(g.Config, label)
		grant.Network = changes && !grant.Proxied && (own == "" || own == schema.NetworkFull)
	}
	return g.protect(grant, dir)
}

// Declared returns what a declared process may do, and its folder. Of the configuration's limits on commands, those on processor time
// and output don't apply, because the process may run as long as its plugin.
func (g Granter) Declared(p config.Process) (grant launch.Grant, dir string, err error) {
	s, mode, tmp := p.Sandbox, box.ReadOnly, ""
	switch {
	case s.FullAccess:
		mode = launch.FullAccess
	case len(s.WritableRoots) > 0:
		mode = box.WorkspaceWrite
		if tmp, err = g.Tmp(); err != nil {
			return grant, "", err
		}
	}
	dir = cmp.Or(p.Cwd, g.Config.Dir)
	grant = ForPlugin(g.Config, For(g.Config, mode, dir, tmp), p.Plugin)
	if mode == box.WorkspaceWrite {
		grant.WritableRoots = s.WritableRoots
	}
	// Relative patterns apply below its own roots too.
	own := slices.Concat([]string{dir}, s.WritableRoots, s.ReadableRoots)
	deny := func(patterns []string, also ...string) []string {
		for _, p := range anchored(also, own) {
			if !slices.Contains(patterns, p) {
				patterns = append(patterns, p)
			}
		}
		return patterns
	}
	grant.DenyRead = deny(grant.DenyRead, slices.Concat(g.Config.Sandbox.DenyRead, s.DenyRead)...)
	grant.DenyWrite = deny(grant.DenyWrite, g.Config.Sandbox.DenyWrite...)
	if len(s.ReadableRoots) > 0 {
		grant.ReadableRoots = slices.Concat([]string{dir}, s.WritableRoots, s.ReadableRoots)
	} else if mode == box.WorkspaceWrite { // what it is started with may be in the machine's /tmp
		grant.Near = named(p.Argv, dir)
	}
	grant.Network, grant.Proxied = s.FullAccess, !s.FullAccess && len(s.Network) > 0
	if grant.Proxied {
		for _, h := range s.Network {
			grant.Hosts = append(grant.Hosts, h.String())
		}
	}
	set, general := p.Limits, grant.Limits
	grant.Limits = launch.Limits{
		MemoryBytes: cmp.Or(set.MemoryBytes, general.MemoryBytes), MaxPids: cmp.Or(set.Pids, general.MaxPids), CPUSeconds: int64(set.CPUTime.Seconds()),
		OpenFiles: cmp.Or(set.OpenFiles, general.OpenFiles), FileBytes: cmp.Or(set.FileBytes, general.FileBytes),
	}
	grant = g.protect(grant, dir)
	return grant, dir, g.Launcher.Check(grant)
}

// named returns the folder of a process, the existing paths among its arguments, and the folders of those that are files.
func named(argv []string, dir string) []string {
	out := []string{dir}
	for _, a := range argv {
		if !filepath.IsAbs(a) {
			a = filepath.Join(dir, a)
		}
		info, err := os.Stat(a)
		if err != nil {
			continue
		}
		out = append(out, a)
		if !info.IsDir() {
			out = append(out, filepath.Dir(a))
		}
	}
	return out
}

// pluginFolder creates the folder that a plugin's commands may write, for example ~/.local/share/gantry/python.
func (g Granter) pluginFolder(label string) (string, error) {
	data := environ.Lookup(g.Environ, "XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		data = filepath.Join(UserHome(g.Environ), ".local", "share")
	}
	dir := filepath.Join(data, "gantry", label)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create a folder for the plugin: %w", err)
	}
	return dir, nil
}

// protect makes the files read-only that hooks and the configuration itself run, if the grant could let them be written.
func (g Granter) protect(grant launch.Grant, cwd string) launch.Grant {
	if grant.Mode != box.WorkspaceWrite {
		return grant // and they need not be looked up
	}
	held := g.Config.Held()
	if g.Held != nil {
		held = append(held, g.Held(cwd)...)
	}
	return Protect(grant, held)
}

// Files returns the grant by which paths are judged under a mode: that of commands in cwd, without a folder for temporary files.
func (g Granter) Files(mode, cwd string) launch.Grant {
	return g.protect(For(g.Config, mode, cwd, ""), cwd)
}

// Writable implements [orchestrate.Granter].
func (g Granter) Writable(r orchestrate.GrantRequest, path string) bool {
	r, bounds := g.within(r)
	grant := g.protect(narrowed(WithPermissions(For(g.Config, r.Sandbox, r.Cwd, ""), r.Permitted), bounds, r.Cwd), r.Cwd)
	return box.Reach(grant, path) == box.AccessWrite && box.Kept(grant, UserHome(g.Environ), g.Environ, path) == ""
}

// Resolve implements [orchestrate.Granter]. Symbolic links are resolved now, so the approval is for the target, even if the link
// changes later.
func (g Granter) Resolve(cwd string, p policy.Permissions) (out policy.Permissions, err error) {
	resolve := func(path string) (string, error) {
		switch {
		case strings.ContainsRune(path, 0):
			return "", fmt.Errorf("the path %q has a zero byte", path)
		case path == "~" || strings.HasPrefix(path, "~/"):
			path = filepath.Join(environ.Lookup(g.Environ, "HOME"), strings.TrimPrefix(path, "~"))
		case !filepath.IsAbs(path):
			path = filepath.Join(cwd, path)
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", fmt.Errorf("permission for %s can't be given: it does not exist; ask for its folder", path)
		}
		if home, err := filepath.EvalSymlinks(g.Home); err == nil && Inside(real, home) {
			return "", fmt.Errorf("permission for %s can't be given: it belongs to gantry; continue without it", real)
		}
		return real, nil
	}
	for _, path := range p.Write {
		real, err := resolve(path)
		switch {
		case err != nil:
			return out, err
		case !isDir(real):
			return out, fmt.Errorf("permission to write %s can't be given: it is not a folder; ask for its folder", real)
		case real == "/":
			return out, errors.New("permission to write / can't be given: it is the whole file system; ask for the folders that are needed, or for escalated permissions")
		}
		out.Write = append(out.Write, real)
	}
	for _, path := range p.Read {
		real, err := resolve(path)
		if err != nil {
			return out, err
		}
		out.Read = append(out.Read, real)
	}
	return policy.Permissions{Network: p.Network}.With(out), nil
}
