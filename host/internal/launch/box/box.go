// Package box confines processes with bubblewrap, Landlock and a filter of system calls.
//
// It owns: which mounts, namespaces, rights and system calls a grant's mode means, and the empty folders that stand in the
// way of protected names for as long as a process runs. It must not know: how a process is started, who asked, what a
// tool is.
//
// Start with [New]; what a mode means stands in [Box.arguments], [rules] and [filter].
package box

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/network"
)

// The modes that are enforced here.
const (
	ReadOnly       = "read-only"
	WorkspaceWrite = "workspace-write"
)

// Protected are the names below a writable root that stay read-only, whether they exist or not: what is executed later, or
// says what may be. Matches codex 0.169, with this project's own.
var Protected = []string{".git", ".agents", ".codex", ".gantry", ".aws"}

// Config is what a box is made with.
type Config struct {
	// Home is gantry's own folder: configuration, keys, threads, sockets. Nothing in a box sees it, but for its plugins.
	Home string
	// UserHome is the user's: where programs keep their keys. Empty: nobody's.
	UserHome string
	// Programs are plugins' own, which they have started for what touches files. Where one is what is started, it is seen in
	// its box wherever it lies. nil: none.
	Programs func() []string
	// Helper is bubblewrap's program; empty: found where only root can have put it.
	Helper string
	// Moved hears what the processes of an owner have made and must not have, when it was moved aside; err is about what
	// could not be. nil: nobody does.
	Moved func(owner launch.Owner, moved []Moved, err error)
}

// credentials are where programs keep keys, below the user's home. Nothing in a box reads them: not a command, and not what
// a command was talked into running.
var credentials = []string{
	".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/hub", ".config/op",
	".netrc", ".git-credentials", ".config/git/credentials", ".pypirc", ".npmrc", ".cargo/credentials.toml", ".vault-token",
	".password-store", ".local/share/keyrings", ".terraform.d/credentials.tfrc.json",
}

// Box makes boxes. It implements [launch.Confiner].
type Box struct {
	home     string
	userHome string
	programs func() []string
	helper   func() (string, error)
	moved    func(launch.Owner, []Moved, error)
	nested   walker

	mu      sync.Mutex
	standIn map[string]int // folders that we made, and how many processes they are there for
}

// New returns a maker of boxes. It looks for bubblewrap when the first box is made.
func New(cfg Config) *Box {
	b := &Box{home: real(cfg.Home), userHome: real(cfg.UserHome), programs: cfg.Programs, moved: cfg.Moved, standIn: map[string]int{}}
	b.helper = sync.OnceValues(func() (string, error) {
		if cfg.Helper != "" {
			return cfg.Helper, nil
		}
		return findHelper()
	})
	return b
}

// real is a path without symbolic links, as far as it is there.
func real(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}

// realParent is a path of which only the last part may be a symbolic link, or not be there.
func realParent(path string) string {
	dir, name := filepath.Split(filepath.Clean(path))
	if dir = filepath.Clean(dir); dir == path {
		return path
	}
	if r, err := filepath.EvalSymlinks(dir); err == nil {
		return filepath.Join(r, name)
	}
	return filepath.Join(realParent(dir), name)
}

// Name is for messages.
func (*Box) Name() string { return "bubblewrap" }

// Modes are read-only and workspace-write.
func (*Box) Modes() []string { return []string{ReadOnly, WorkspaceWrite} }

// Check says whether boxes can be made here at all.
func (b *Box) Check(g launch.Grant) error {
	if err := supported(); err != nil {
		return &launch.UnsupportedError{
			Mode: g.Mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: %v", g.Mode, err),
			Next: `set sandbox { mode = "full-access" } to run without confinement`,
		}
	}
	if _, err := b.helper(); err != nil {
		return &launch.UnsupportedError{
			Mode: g.Mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: %v", g.Mode, err),
			Next: `install bubblewrap (the package has that name), or set sandbox { mode = "full-access" } to run without confinement`,
		}
	}
	return nil
}

// Confine puts a process into a box.
func (b *Box) Confine(_ context.Context, g launch.Grant, readOnly bool, c *launch.Confinement) (release func(), err error) {
	if err := b.Check(g); err != nil {
		return nil, err
	}
	if g.Network && g.Proxied {
		return nil, fmt.Errorf("the grant gives the whole network and the proxy's; it has to be one of them")
	}
	helper, err := b.helper()
	if err != nil {
		return nil, err
	}
	var roots []string
	if g.Mode == WorkspaceWrite && !readOnly {
		if roots, err = b.roots(g.WritableRoots); err != nil {
			return nil, err
		}
	}
	opened := make([]string, 0, len(g.Opened))
	for _, p := range g.Opened {
		opened = append(opened, realParent(p))
	}
	hold, release, err := b.protect(roots, opened)
	if err != nil {
		return nil, err
	}
	if len(roots) > 0 {
		before := b.nested.walk(roots)
		for _, p := range before.hold {
			if !slices.Contains(roots, p) && !isOpen(p, opened) {
				hold = append(hold, p)
			}
		}
		unmake, owner, known := release, c.Owner, before.known()
		release = func() {
			moved, err := quarantine(known, opened, b.nested.walk(roots))
			if b.moved != nil && (len(moved) > 0 || err != nil) {
				b.moved(owner, moved, err)
			}
			unmake()
		}
	}
	tmp := g.Tmp
	if g.Mode == ReadOnly || readOnly {
		tmp = "" // the machine's own, to be read
	}
	x := &control.Box{Helper: helper, Args: b.arguments(g, roots, hold, tmp), Filter: filter(g.Network, g.Proxied), Listen: g.Proxied}
	if b.programs != nil && len(c.Argv) > 0 && slices.Contains(b.programs(), c.Argv[0]) {
		x.Args = append(x.Args, "--ro-bind", c.Argv[0], c.Argv[0])
	}
	x.Handled, x.Scoped, x.Rules = rules(append(slices.Clone(roots), "/tmp"), tmp != "")
	c.Box = x
	c.Env = append(slices.Clone(c.Env), "GANTRY_SANDBOX="+g.Mode)
	switch {
	case g.Proxied:
		c.Env = append(network.Without(c.Env), network.Variables(fmt.Sprintf("127.0.0.1:%d", control.ProxyPort))...)
	case !g.Network:
		c.Env = append(c.Env, "GANTRY_SANDBOX_NETWORK_DISABLED=1")
	}
	if tmp != "" {
		c.Env = append(c.Env, "TMPDIR=/tmp")
	}
	return release, nil
}

// roots are the writable roots as the kernel knows them. Those that are not there are left out.
func (b *Box) roots(asked []string) ([]string, error) {
	var out []string
	for _, r := range asked {
		if !filepath.IsAbs(r) {
			return nil, fmt.Errorf("the writable root %q is not absolute; write it from the root of the file system", r)
		}
		real, err := filepath.EvalSymlinks(r)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the writable root %s can't be used: %w", r, err)
		}
		switch {
		case real == "/":
			return nil, fmt.Errorf("the writable root / is the whole machine; name folders, or set sandbox { mode = \"full-access\" }")
		case b.home != "" && (real == b.home || below(real, b.home)):
			return nil, fmt.Errorf("the writable root %s is gantry's own folder, which holds keys and what is allowed; work in another one", r)
		}
		if !slices.Contains(out, real) {
			out = append(out, real)
		}
	}
	return out, nil
}

// below reports whether path lies in dir.
func below(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// mount is one step of making the box's file system.
type mount struct {
	path string
	args []string
}

// Report is what a box keeps, and by what.
type Report struct {
	Helper     string   // bubblewrap's program; empty: there is none, and Missing says why
	Missing    error    // why there are no boxes here; nil: there are
	Landlock   int      // the version that the kernel has; 0: this layer is missing
	Writable   []string // folders
	Protected  []string // what stays read-only in them
	Unreadable []string // what nobody in the box reads
}

// Report says what a grant's box would be. It starts nothing.
func (b *Box) Report(g launch.Grant) Report {
	r := Report{Landlock: landlock()}
	if r.Missing = b.Check(g); r.Missing == nil {
		r.Helper, r.Missing = b.helper()
	}
	if g.Mode == WorkspaceWrite {
		roots, err := b.roots(g.WritableRoots)
		if err != nil {
			r.Missing = err
		}
		r.Writable = append(roots, "/tmp")
		for _, root := range roots {
			for _, name := range Protected {
				r.Protected = append(r.Protected, filepath.Join(root, name))
			}
		}
	}
	if isDir(b.home) {
		r.Unreadable = append(r.Unreadable, b.home)
	}
	for _, name := range credentials {
		if p := filepath.Join(b.userHome, name); b.userHome != "" {
			if _, err := os.Lstat(p); err == nil {
				r.Unreadable = append(r.Unreadable, p)
			}
		}
	}
	return r
}

// arguments are bubblewrap's. Mounts go from shallow to deep: a deeper one is an exception from the one above it.
func (b *Box) arguments(g launch.Grant, roots, hold []string, tmp string) []string {
	args := []string{
		"--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--cap-drop", "ALL",
	}
	if !g.Network {
		args = append(args, "--unshare-net")
	}
	args = append(args, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
	for _, name := range []string{"sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"} {
		args = append(args, "--ro-bind-try", "/proc/"+name, "/proc/"+name)
	}
	for _, name := range []string{"keys", "key-users", "kcore", "kmsg", "timer_list", "sched_debug"} {
		if _, err := os.Lstat("/proc/" + name); err == nil {
			args = append(args, "--ro-bind", "/dev/null", "/proc/"+name)
		}
	}
	var mounts []mount
	add := func(path string, args ...string) { mounts = append(mounts, mount{path, args}) }
	// Sockets of services lie here: of containers, of the desktop, of agents that hold keys. Names are still resolved.
	add("/run", "--tmpfs", "/run")
	for _, keep := range []string{"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/current-system"} {
		if _, err := os.Stat(keep); err == nil {
			add(keep, "--ro-bind", keep, keep)
		}
	}
	if tmp != "" {
		add("/tmp", "--bind", tmp, "/tmp")
	}
	for _, r := range roots {
		add(r, "--bind", r, r)
	}
	for _, p := range hold {
		add(p, "--ro-bind", p, p)
	}
	sealed := []string{"/run"}
	if isDir(b.home) {
		add(b.home, "--tmpfs", b.home)
		sealed = append(sealed, b.home)
		if plugins := filepath.Join(b.home, "plugins"); isDir(plugins) {
			add(plugins, "--ro-bind", plugins, plugins)
		}
	}
	if b.userHome != "" {
		for _, name := range credentials {
			p := real(filepath.Join(b.userHome, name))
			switch info, err := os.Lstat(p); {
			case err != nil || insideAny(p, roots) || slices.Contains(roots, p): // whoever works on it means it
			case info.IsDir():
				add(p, "--perms", "0000", "--tmpfs", p)
				sealed = append(sealed, p)
			case info.Mode().IsRegular():
				add(p, "--ro-bind", "/dev/null", p)
			}
		}
	}
	slices.SortStableFunc(mounts, func(a, b mount) int { return strings.Count(a.path, "/") - strings.Count(b.path, "/") })
	for _, m := range mounts {
		args = append(args, m.args...)
	}
	for _, p := range sealed { // after what is shown below them, for which a folder had to be made
		args = append(args, "--remount-ro", p)
	}
	return args
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return path != "" && err == nil && info.IsDir()
}
