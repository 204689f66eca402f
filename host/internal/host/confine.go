package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Confiners are the ways in which this build enforces the sandbox modes, for a home of gantry's and the user's environment. keys are the
// files that the configuration reads keys from, programs those of plugins, nil: none; moved hears what was moved aside.
func Confiners(home string, environ []string, keys func() []config.KeyFile, programs func() []string, moved func(launch.Owner, []box.Moved, error)) []launch.Confiner {
	return confiners(newBox(home, environ, keys, programs, moved))
}

func confiners(b *box.Box) []launch.Confiner { return []launch.Confiner{launch.Unconfined{}, b} }

func newBox(home string, environ []string, keys func() []config.KeyFile, programs func() []string, moved func(launch.Owner, []box.Moved, error)) *box.Box {
	var files func() []string
	if keys != nil {
		files = func() []string { return KeyPaths(keys(), "") }
	}
	return box.New(box.Config{Home: home, UserHome: UserHome(environ), Environ: environ, KeyFiles: files, Programs: programs, Moved: moved})
}

// KeyPaths are the paths of key files that the plugin with this label has not named itself.
func KeyPaths(keys []config.KeyFile, label string) []string {
	var out []string
	for _, k := range keys {
		if (k.Owner != label || label == "") && !slices.Contains(out, k.Path) {
			out = append(out, k.Path)
		}
	}
	return out
}

// KeyFiles are the files that a configuration reads keys from, where no manifest is known.
func KeyFiles(c *config.Config) func() []config.KeyFile {
	return sync.OnceValue(func() []config.KeyFile {
		return c.KeyFiles(func(*config.PluginBlock) *contract.Manifest { return nil })
	})
}

// keyFiles are the files that the configuration reads keys from, as far as manifests say which settings are keys.
func (h *Host) keyFiles() []config.KeyFile {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.keyFiles == nil {
		h.mu.keyFiles = h.opts.Config.KeyFiles(func(b *config.PluginBlock) *contract.Manifest { return h.mu.manifests[b.Label] })
	}
	return h.mu.keyFiles
}

// watchFolders has the folders in which a thread's commands may write looked through before the first of them asks, and what commands of
// a host that was killed have left there dealt with before anything else happens.
func (h *Host) watchFolders(t *thread.Thread, as child.Role) {
	set := t.Settings()
	mode := cmp.Or(as.Sandbox, set.Sandbox, h.opts.Config.Sandbox.Mode)
	err := h.launcher.Watch(string(t.ID()), Grant(h.opts.Config, mode, set.Cwd, ""))
	if err == nil {
		return
	}
	n := event.Notice{Level: "warning", Text: err.Error(), Next: "no command runs in the sandbox until this is dealt with"}
	if _, err := t.Publish(context.WithoutCancel(h.life), "", n); err != nil {
		h.log.Warn("notice not published", "error", err)
	}
}

// movedAside tells the user and the model what a command has made that a sandbox must not leave behind, and the user what it has
// changed that others execute. A file that was named is not named again; one that was only counted is.
func (h *Host) movedAside(owner launch.Owner, moved []box.Moved, err error) {
	h.mu.Lock()
	r := h.mu.threads[event.ThreadID(owner.Thread)]
	if r != nil {
		moved = slices.DeleteFunc(slices.Clone(moved), func(m box.Moved) bool { return m.Stays() && r.told.Has("file "+m.From) })
		for _, m := range mentioned(moved) {
			r.told.First("file " + m.From)
		}
	}
	h.mu.Unlock()
	if r == nil {
		return
	}
	for _, n := range MovedNotices(moved, err, MaxMentioned) {
		if _, err := r.thread.Publish(context.WithoutCancel(h.life), "", n); err != nil {
			h.log.Warn("notice not published", "error", err)
		}
		if n.Level == "warning" {
			h.log.Warn("a command left behind what is executed later", "thread", owner.Thread, "call", owner.Call, "moved", n.Text)
			r.plugs.context("sandbox", contract.ContextText{Key: "moved", Text: "The sandbox moved aside what commands have made: " + n.Text +
				". Commands in the sandbox may not make this; if the task needs it, say so and ask for a call outside of the sandbox."})
		}
	}
}

// A notice mentions some files, and carries so many; `gantry diff --executable` lists these.
const (
	MaxMentioned = 5
	maxExecuted  = 2000
)

// mentioned are those of the files that stay which a notice names.
func mentioned(moved []box.Moved) []box.Moved {
	stays := slices.DeleteFunc(slices.Clone(moved), func(m box.Moved) bool { return !m.Stays() })
	return stays[:min(len(stays), MaxMentioned)]
}

// MovedNotices word what was moved aside, or could not be, as a warning, and what stays but is executed later. Of each they mention at most
// so many.
func MovedNotices(moved []box.Moved, err error, most int) []event.Notice {
	var out []event.Notice
	var aside, stays event.Notice
	var lines, names []string
	for _, m := range moved {
		n := &aside
		switch {
		case m.Stays():
			n = &stays
			names = append(names, strconv.Quote(m.From))
		case m.Changed:
			lines = append(lines, fmt.Sprintf("%q was made harmless, because %s", m.From, m.Why))
		default:
			lines = append(lines, fmt.Sprintf("%q is now %q, because %s", m.From, filepath.Base(m.To), m.Why))
		}
		if len(n.Executable) >= maxExecuted {
			n.More++
			continue
		}
		n.Executable = append(n.Executable, event.ExecutableFile{Path: m.From, MovedTo: m.To, Disarmed: m.Changed, Why: m.Why})
	}
	const all = ", and %d more, which `gantry diff --executable` lists"
	shown := func(lines []string, between string) string {
		text := strings.Join(lines[:min(len(lines), most)], between)
		if more := len(lines) - most; more > 0 {
			text += fmt.Sprintf(all, more)
		}
		return text
	}
	if len(lines) > 0 || err != nil {
		aside.Level, aside.Text, aside.Next = "warning", shown(lines, "; "), "look at what was moved before you move it back"
		if err != nil {
			aside.Text = strings.TrimPrefix(aside.Text+"; "+err.Error(), "; ")
		}
		out = append(out, aside)
	}
	if len(names) > 0 {
		stays.Level, stays.Text, stays.Next = "info", "other programs execute what was changed here: "+shown(names, ", "), "read it before you build, or open the folder elsewhere"
		out = append(out, stays)
	}
	return out
}

// ours are the things of gantry's own in its home, as patterns; what else lies there the user has put there for plugins:
// scripts, certificates.
var ours = []string{
	"*.hcl", "*.json", "denied", "secrets*", "threads.db*", "state.db*", "artifacts", "run", "data", "cache", "locks", "hosts", "tmp", "rules", "hooks*", "plugins",
}

// users are the things in gantry's home that are not gantry's.
func users(home string) []string {
	entries, err := os.ReadDir(home)
	if err != nil {
		return nil // then nobody sees them
	}
	var out []string
	for _, e := range entries {
		if !slices.ContainsFunc(ours, func(p string) bool { ok, err := filepath.Match(p, e.Name()); return ok || err != nil }) {
			out = append(out, filepath.Join(home, e.Name()))
		}
	}
	return out
}

// Confine says what the program of a block may see and change itself. What it has the host start runs under a call's grant. keys are the
// files that the configuration reads keys from; boxes hide from it what appears later, nil: nothing does.
func Confine(b *config.PluginBlock, c *config.Config, keys func() []config.KeyFile, boxes *box.Box, binDir, home, userHome, program string) func(own []string) (*plugin.Sandbox, error) {
	denied, network := DeniedToPlugins(c), len(b.Permissions.Network) > 0
	near := append([]string{c.Dir, filepath.Dir(program)}, slices.Concat(c.Sandbox.WritableRoots, c.Sandbox.ReadableRoots)...)
	for _, a := range b.Args {
		if filepath.IsAbs(a) { // of an interpreter: the script, with what lies beside it
			near = append(near, filepath.Dir(a))
		}
	}
	return func(own []string) (*plugin.Sandbox, error) {
		cage := func() (box.PluginConfig, error) {
			files, err := box.Denied(denied)
			if err != nil {
				return box.PluginConfig{}, fmt.Errorf("what sandbox { deny_read } names can't be kept from the plugin's process: %w", err)
			}
			for _, p := range KeyPaths(keys(), b.Label) {
				if !slices.Contains(b.Permissions.Read, p) && !slices.Contains(b.Permissions.Write, p) {
					files = append(files, p)
				}
			}
			return box.PluginConfig{
				Home: home, UserHome: userHome, Own: own,
				Read: slices.Concat(b.Permissions.Read, users(home), []string{program}), Write: b.Permissions.Write,
				Confined: b.Kind == contract.KindTool, Network: network, Tmp: filepath.Join(own[0], plugin.TmpDir), Near: near,
				ShmBytes: b.Limits.MemoryBytes,
				Hidden:   []string{filepath.Dir(filepath.Dir(own[0]))}, // sockets of other plugins, and of other hosts
				Denied:   files,
			}, nil
		}
		out := &plugin.Sandbox{Launcher: filepath.Join(binDir, "gantry-launch"), Network: network}
		if boxes != nil {
			out.Late = boxes.Late(b.Label, cage)
		}
		cfg, err := cage()
		if err != nil {
			return nil, err
		}
		out.Box = box.PluginSandbox(cfg)
		return out, nil
	}
}

// DeniedToPlugins are the patterns of what plugins' own processes do not see: what is denied below the folder where the host works, and
// below the folders that commands may read and write.
func DeniedToPlugins(c *config.Config) []string {
	return anchored(c.Sandbox.DenyRead, slices.Concat([]string{c.Dir}, c.Sandbox.WritableRoots, c.Sandbox.ReadableRoots))
}

// toolPrograms are the programs of the configured tool plugins.
func (h *Host) toolPrograms() []string {
	var out []string
	for _, b := range h.opts.Config.Plugins {
		if path, err := Program(b, h.opts.BinDir, h.opts.Home); err == nil && b.Kind == contract.KindTool {
			out = append(out, path)
		}
	}
	return out
}

// Grant is what processes may do under a configuration, in a sandbox mode. tmp is the folder that they see as /tmp; empty:
// the machine's.
func Grant(c *config.Config, mode, cwd, tmp string) launch.Grant {
	l := c.Limits
	g := launch.Grant{
		Mode: mode, Network: c.Sandbox.Network || mode == launch.FullAccess, Proxied: proxied(c, mode), Landlock: c.Sandbox.RequireLandlock,
		Limits: launch.Limits{
			MemoryBytes: l.MemoryBytes, MaxPids: l.Pids, CPUSeconds: int64(l.CPUTime.Seconds()), OpenFiles: l.OpenFiles,
			FileBytes: l.FileBytes, OutputBytes: l.OutputBytes,
		},
	}
	writable := append([]string{cwd}, slices.DeleteFunc(slices.Clone(c.Sandbox.WritableRoots), func(r string) bool { return r == cwd })...)
	around := writable
	if len(c.Sandbox.ReadableRoots) > 0 {
		around = slices.Concat(writable, c.Sandbox.ReadableRoots)
		g.ReadableRoots = around
	}
	g.DenyRead, g.DenyWrite = anchored(c.Sandbox.DenyRead, around), anchored(c.Sandbox.DenyWrite, around)
	if mode == box.WorkspaceWrite {
		g.WritableRoots = writable
		g.Tmp = tmp
	}
	return g
}

// UserHome is where the user's keys are that boxes hide: the folder that HOME names, or else the account's. A service of the machine's
// is often started without HOME. Empty: the account has none.
func UserHome(environ []string) string {
	if dir := variable(environ, "HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}

// variable is the value of an environment's variable.
func variable(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

// boxAhead is how long a box waits for the next command of a turn: as long as models think, mostly.
const boxAhead = 30 * time.Second

// isCommand reports whether calls of a tool are commands, as far as that is known before their arguments are.
func isCommand(d contract.Descriptor) bool {
	return d.AbortReadsAsCommand || slices.ContainsFunc(d.Effects, func(e contract.Effect) bool { _, ok := e.(contract.ExecEffect); return ok })
}

// granter makes grants from the configuration.
type granter struct {
	launcher *launch.Launcher
	config   *config.Config
	home     string
	environ  []string                  // the host's
	held     func(dir string) []string // what hooks run there; nil: nothing
	tmp      func() (string, error)    // of the thread; made when it is first needed
}

// Grant implements [orchestrate.Granter]. An escalation was approved by then.
func (g granter) Grant(_ context.Context, r orchestrate.GrantRequest) (launch.Grant, error) {
	mode := r.Sandbox
	if r.Escalation != nil && r.Escalation.Unsandboxed {
		mode = launch.FullAccess
	}
	tmp := ""
	if mode == box.WorkspaceWrite {
		var err error
		if tmp, err = g.tmp(); err != nil {
			return launch.Grant{}, err
		}
	}
	grant := Grant(g.config, mode, r.Cwd, tmp)
	if mode != launch.FullAccess {
		grant = withPermissions(grant, r.Permitted)
		if r.Escalation != nil {
			grant = widened(grant, r.Escalation.Additional)
		}
	}
	grant = g.holding(grant, r.Cwd)
	return grant, g.launcher.Check(grant)
}

// holding keeps what hooks run from being changed by what the grant is for.
func (g granter) holding(grant launch.Grant, cwd string) launch.Grant {
	if g.held == nil {
		return Holding(grant, g.config.Held())
	}
	return Holding(grant, append(g.config.Held(), g.held(cwd)...))
}

// Holding is a grant under which files and folders are only read. What is not there, or is reached by a link, is left out: it is not
// what anybody agreed to.
func Holding(grant launch.Grant, paths []string) launch.Grant {
	for _, p := range paths {
		if grant.Mode != box.WorkspaceWrite || !lies(grant.WritableRoots, p) {
			continue
		}
		if _, err := os.Lstat(p); err != nil || throughLink(p, grant.WritableRoots) {
			continue
		}
		grant.DenyWrite = append(slices.Clip(grant.DenyWrite), glob.Quote(p))
	}
	return grant
}

// throughLink reports whether a path leads through a symbolic link below a root: a sandbox refuses to hold such a one.
func throughLink(path string, roots []string) bool {
	for _, r := range roots {
		if !inside(path, r) {
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

// Writable implements [orchestrate.Granter].
func (g granter) Writable(r orchestrate.GrantRequest, path string) bool {
	grant := g.holding(withPermissions(Grant(g.config, r.Sandbox, r.Cwd, ""), r.Permitted), r.Cwd)
	return box.Reach(grant, path) == box.AccessWrite && box.Kept(grant, UserHome(g.environ), g.environ, path) == ""
}

// Resolve implements [orchestrate.Granter]. A link is followed now: what is approved is what it leads to, wherever it leads later.
func (g granter) Resolve(cwd string, p policy.Permissions) (out policy.Permissions, err error) {
	resolve := func(path string) (string, error) {
		switch {
		case strings.ContainsRune(path, 0):
			return "", fmt.Errorf("the path %q has a zero byte", path)
		case path == "~" || strings.HasPrefix(path, "~/"):
			path = filepath.Join(variable(g.environ, "HOME"), strings.TrimPrefix(path, "~"))
		case !filepath.IsAbs(path):
			path = filepath.Join(cwd, path)
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", fmt.Errorf("permission for %s can't be given: it is not there; ask for the folder that it is to be in", path)
		}
		if home, err := filepath.EvalSymlinks(g.home); err == nil && inside(real, home) {
			return "", fmt.Errorf("permission for %s can't be given: it is gantry's own; go on without it", real)
		}
		return real, nil
	}
	for _, path := range p.Write {
		real, err := resolve(path)
		switch {
		case err != nil:
			return out, err
		case !isDir(real):
			return out, fmt.Errorf("permission to write %s can't be given: it is no folder; ask for the folder that it is in", real)
		case real == "/":
			return out, errors.New("permission to write / can't be given: it is the whole machine; ask for the folders that are needed, or for escalated permissions")
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

// withPermissions adds to a grant what was given ahead of the call. What is not what it was then is left out: a link has come into its place.
func withPermissions(g launch.Grant, p policy.Permissions) launch.Grant {
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
	return widened(g, policy.Permissions{Read: same(p.Read), Write: dirs, Network: p.Network}.Effects())
}

// widened lets a grant do what was approved: write folders, and the folders of files; read what is usually hidden; reach the network.
func widened(g launch.Grant, effects []contract.Effect) launch.Grant {
	for _, e := range effects {
		switch e := e.(type) {
		case contract.WriteEffect:
			for _, p := range e.Paths {
				dir, within := p, slices.Contains[[]string]
				if !isDir(p) {
					g.Opened = append(slices.Clip(g.Opened), p)
					dir, within = filepath.Dir(p), lies
				}
				for !isDir(dir) && dir != filepath.Dir(dir) {
					dir = filepath.Dir(dir)
				}
				if g.Mode != box.WorkspaceWrite || !within(g.WritableRoots, dir) {
					g.Mode, g.WritableRoots = box.WorkspaceWrite, append(slices.Clip(g.WritableRoots), dir)
				}
			}
		case contract.ReadEffect:
			g.Shown = append(slices.Clip(g.Shown), e.Paths...)
			if len(g.ReadableRoots) > 0 {
				g.ReadableRoots = append(slices.Clip(g.ReadableRoots), e.Paths...)
			}
		case contract.NetworkEffect:
			if e.Host == policy.EveryHost && !g.Proxied { // with a proxy it is hosts that are asked about
				g.Network = true
			}
		}
	}
	return g
}

// lies reports whether a folder is one of these roots, or lies in one: then it is not for the sake of a file in it that all of it is opened.
func lies(roots []string, dir string) bool {
	real := func(path string) string {
		if r, err := filepath.EvalSymlinks(path); err == nil {
			return r
		}
		return path
	}
	return slices.ContainsFunc(roots, func(r string) bool { return inside(real(dir), real(r)) })
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// tmpDir is where this host's threads have their /tmp.
func (h *Host) tmpDir() string { return filepath.Join(h.opts.Home, "tmp", strconv.Itoa(os.Getpid())) }

// threadTmp makes the folder that is /tmp to the commands of a thread, of all of them, so that one finds what another left.
func (h *Host) threadTmp(id event.ThreadID) (string, error) {
	dir := filepath.Join(h.tmpDir(), string(id))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for temporary files: %w; free some space, or set another --home", err)
	}
	return dir, nil
}

// sweepTmp removes the folders of hosts that were killed.
func (h *Host) sweepTmp() {
	top := filepath.Join(h.opts.Home, "tmp")
	entries, err := os.ReadDir(top)
	if err != nil {
		return // there is none
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := os.FindProcess(pid); err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			h.discard(filepath.Join(top, e.Name()))
		}
	}
}

// discard removes a folder of temporary files. What can't be removed is taken up by the next sweep.
func (h *Host) discard(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		h.log.Warn("temporary files not removed", "folder", dir, "err", err)
	}
}
