package workbench

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Workspace is a folder with its configuration: what the user's commands may do there.
type Workspace struct {
	Dir     string         // absolute
	Config  *config.Config // the one that applies in Dir; other folders may share it
	Environ *grants.Environ
	Granter grants.Granter // its Tmp returns the folder that the client's commands see as /tmp
	// Check returns an error if a sandbox mode can't be enforced for a folder; see [grants.Checker.Check].
	Check func(ctx context.Context, mode, dir string) error
	Box   *box.Sandbox // says which files it hides
	// Runner starts the workspace's commands.
	Runner Runner
}

func (w *Workspace) mode() string { return w.Config.Sandbox.Mode }

// grant returns what commands of the workspace may do under a mode, once it is clear that this machine can enforce it.
func (w *Workspace) grant(ctx context.Context, mode string) (launch.Grant, error) {
	if err := w.Check(ctx, mode, w.Dir); err != nil {
		return launch.Grant{}, err
	}
	return w.Granter.Grant(ctx, orchestrate.GrantRequest{Sandbox: mode, Cwd: w.Dir})
}

// areas says which workspace's rules apply to which path, for one request.
type areas struct {
	first *Workspace
	roots []area
	rules map[*Workspace]rules // those that were needed
}

// area is a folder of a workspace.
type area struct {
	path string // resolved
	ws   *Workspace
}

// areas returns the folders of all workspaces of the client.
func (c Config) areas() *areas {
	all := c.Workspaces()
	a := &areas{first: all[0], rules: map[*Workspace]rules{}}
	if len(all) > 1 {
		first := all[0].rules()
		all = append([]*Workspace{all[0]}, slices.DeleteFunc(slices.Clone(all[1:]), func(w *Workspace) bool { return !w.extends(first) })...)
	}
	for _, w := range all {
		a.roots = append(a.roots, area{fspath.Resolve(w.Dir), w})
	}
	// A folder that is a workspace of its own has its own rules, even if another one may write there too.
	for _, w := range all {
		for _, root := range w.Config.Sandbox.WritableRoots {
			a.roots = append(a.roots, area{fspath.Resolve(root), w})
		}
	}
	return a
}

// extends reports whether a folder may extend a client's workspace. Sandboxes protect some places by their names, but not from a sandbox
// whose own folder they are. Such a folder must not give a client what the first workspace's rules keep from it.
func (w *Workspace) extends(first rules) bool {
	dir := fspath.Resolve(w.Dir)
	anywhere := w.Granter.Files(w.mode(), w.Dir)
	anywhere.WritableRoots = []string{filepath.VolumeName(dir) + string(filepath.Separator)}
	environ := w.Granter.Environ
	// /tmp is not hidden because of what it is: each sandbox has its own in its place.
	seen := first.grant
	seen.WritableRoots = append(slices.Clone(seen.WritableRoots), "/tmp")
	return !first.ws.Box.Hidden(seen)(dir) && first.reach(dir) >= box.AccessRead && box.Kept(anywhere, grants.UserHome(environ), environ, dir) == ""
}

// workspace returns the workspace whose rules apply to a resolved path.
func (a *areas) workspace(path string) *Workspace {
	best, depth := a.first, -1
	for _, r := range a.roots {
		if len(r.path) > depth && (path == r.path || fspath.Below(path, r.path)) {
			best, depth = r.ws, len(r.path)
		}
	}
	return best
}

// of returns the rules that apply to a resolved path.
func (a *areas) of(path string) rules {
	ws := a.workspace(path)
	r, ok := a.rules[ws]
	if !ok {
		r = ws.rules()
		a.rules[ws] = r
	}
	return r
}

// unlimited reports whether no workspace limits what is written below a path.
func (a *areas) unlimited(path string) bool {
	free := func(r rules) bool { return r.full() && len(r.grant.DenyRead) == 0 }
	return free(a.of(path)) && !slices.ContainsFunc(a.roots, func(r area) bool { return fspath.Below(r.path, path) && !free(a.of(r.path)) })
}

// rules are the rules for files of a workspace. All paths are resolved.
type rules struct {
	ws     *Workspace
	grant  launch.Grant
	roots  []string               // writable, in mode workspace-write
	hidden func(path string) bool // by the sandbox
}

func (w *Workspace) rules() rules {
	r := rules{ws: w, grant: w.Granter.Files(w.mode(), w.Dir)}
	// Roots are resolved, as paths are before they are judged, so that a link in the middle of either does not matter.
	r.grant.WritableRoots = resolved(r.grant.WritableRoots)
	r.grant.ReadableRoots = resolved(r.grant.ReadableRoots)
	if r.grant.Mode == box.WorkspaceWrite {
		r.roots = r.grant.WritableRoots
	}
	r.hidden = w.Box.Hidden(r.grant)
	return r
}

func resolved(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, fspath.Resolve(p))
	}
	return out
}

// supported returns an error on systems whose paths the sandbox's rules don't describe.
func (r rules) supported() error {
	if runtime.GOOS != "windows" {
		return nil
	}
	return hint.With(rpc.Errorf(rpc.InvalidRequest, "fs methods are not supported on Windows, where gantry has no sandbox whose limits they could keep"),
		"run gantry in WSL 2 (`wsl --install`), where everything works")
}

// full reports whether files are not confined, except for what is denied.
func (r rules) full() bool { return r.grant.Mode == launch.FullAccess }

// private reports whether a path belongs to gantry. Its configuration, keys and threads have methods of their own.
func (r rules) private(path string) bool {
	home := fspath.Resolve(r.ws.Config.Home)
	if home == "" || path != home && !fspath.Below(path, home) {
		return false
	}
	plugins := filepath.Join(home, "plugins")
	return path != plugins && !fspath.Below(path, plugins)
}

// readable returns an error if commands of the workspace can't read a path.
func (r rules) readable(path string) error {
	why := ""
	switch {
	case r.private(path):
		why = "it belongs to gantry"
	case r.hidden(path):
		why = "the sandbox hides it"
	case r.reach(path) < box.AccessRead, !r.full() && len(r.grant.ReadableRoots) > 0 && !r.inReadable(path):
		why = "the configuration does not let commands read it"
	default:
		return nil
	}
	return hint.With(rpc.Errorf(rpc.InvalidRequest, "%s can't be read: %s", path, why),
		fmt.Sprintf("choose another file, or change the sandbox block of the configuration for %s", r.ws.Dir))
}

// inReadable reports whether a path is outside of the folder /tmp that each sandbox has for itself.
func (r rules) inReadable(path string) bool {
	return fspath.Deepest([]string{"/tmp"}, path) == "" || fspath.Deepest(slices.Concat(r.grant.ReadableRoots, r.grant.WritableRoots), path) != ""
}

// writable returns an error if commands of the workspace can't write a path, or create it. With whole the path is to be removed, with
// everything in it.
func (r rules) writable(path string, whole bool) error {
	why := r.readOnly(path, whole)
	if why == "" {
		return nil
	}
	next := fmt.Sprintf("write below %s", strings.Join(r.roots, ", "))
	switch {
	case len(r.roots) == 0 && !r.full():
		next = `set sandbox { mode = "workspace-write" } to let clients and commands write in the workspace`
	case fspath.Deepest(r.roots, path) != "" || r.full():
		next = "write another file, or make the change yourself"
	}
	return hint.With(rpc.Errorf(rpc.InvalidRequest, "%s can't be written: %s", path, why), next)
}

// readOnly says why a path can't be written, or returns "".
func (r rules) readOnly(path string, whole bool) string {
	home := fspath.Resolve(r.ws.Config.Home)
	switch {
	case r.private(path) || home != "" && (path == home || fspath.Below(path, home)):
		return "it belongs to gantry"
	case whole && home != "" && fspath.Below(home, path):
		return "it contains gantry's own folder"
	case r.full() && r.reach(path) == box.AccessWrite:
		return ""
	case r.full():
		return "sandbox { deny_read } names it"
	case len(r.roots) == 0:
		return fmt.Sprintf("the sandbox mode is %q", r.grant.Mode)
	case fspath.Deepest(r.roots, path) == "":
		return "it is outside of the folders that commands may write"
	case r.hidden(path):
		return "the sandbox hides it"
	case whole && slices.ContainsFunc(r.roots, func(root string) bool { return root == path || fspath.Below(root, path) }):
		return "it is, or contains, a folder that commands may write"
	}
	// A name in another case may be the same file on macOS.
	spellings := []string{path}
	if runtime.GOOS == "darwin" {
		root := fspath.Deepest(r.roots, path)
		spellings = append(spellings, root+strings.ToLower(strings.TrimPrefix(path, root)))
	}
	environ := r.ws.Granter.Environ
	kept := box.Kept
	if whole {
		kept = box.KeptIn
	}
	for _, p := range spellings {
		if why := kept(r.grant, grants.UserHome(environ), environ, p); why != "" {
			return why
		}
		if r.reach(p) != box.AccessWrite {
			return "the sandbox keeps it as it is"
		}
	}
	return ""
}

func (r rules) reach(path string) box.Access { return box.Reach(r.grant, path) }
