// Package box is the command sandbox: it confines the processes that run for calls, on Linux with bubblewrap, Landlock and a system
// call filter, on macOS with the system's sandbox.
//
// It owns: the mounts, namespaces, rights and system calls, or the rules, that a grant's mode means, and which files stay
// protected. It must not know: how a process is started, who asked for it, what a tool is.
//
// Start with [New] and [Sandbox.Confine].
package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/deny"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/hardlink"
	"github.com/gantry-agent/gantry/host/internal/launch/box/kernel"
	"github.com/gantry-agent/gantry/host/internal/launch/box/latecover"
	"github.com/gantry-agent/gantry/host/internal/launch/box/quarantine"
	"github.com/gantry-agent/gantry/host/internal/launch/box/secrets"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
	"github.com/gantry-agent/gantry/host/internal/network"
)

// The modes that are enforced here.
const (
	ReadOnly       = "read-only"
	WorkspaceWrite = "workspace-write"
)

// Protected are the names that stay read-only directly below a writable root.
var Protected = autorun.Protected

// Moved is what a command has created that was moved aside, or that a person should look at.
type Moved = quarantine.Moved

// Config configures a Sandbox.
type Config struct {
	// Home is gantry's own folder: configuration, keys, threads, sockets. All of it but the plugins is hidden.
	Home string
	// UserHome is the user's home folder, where programs keep keys; empty: none.
	UserHome string
	// KeyFiles returns further files that hold keys: those that the configuration reads keys from, absolute; nil: none.
	KeyFiles func() []string
	// Programs returns plugins' own programs, which they have gantry start for work on files. Such a program is visible in its
	// sandbox wherever it is; nil: none.
	Programs func() []string
	// Environ is the user's environment, which says where git finds settings and shells find programs.
	Environ []string
	// Helper is the path of bubblewrap or sandbox-exec; empty: it is searched where only root can install programs.
	Helper string
	// Moved receives what an owner's processes have created and was moved aside, with an error about what could not be; and what
	// they have changed that other programs execute, which stays. nil: it is not reported.
	Moved func(owner launch.Owner, moved []Moved, err error)
}

// Sandbox confines commands. It implements [launch.Confiner]. Its methods may be called concurrently.
type Sandbox struct {
	home     string
	userHome string
	locator  secrets.Locator
	programs func() []string
	helper   func() (string, error)
	seatbelt bool // for macOS's sandbox instead of bubblewrap
	landlock func() int
	guard    *quarantine.Guard
	narrowed hardlink.Finder
	patterns deny.Finder

	late *latecover.Processes

	mu    sync.Mutex
	swept map[string]bool // roots that were cleared of placeholders
}

// New returns a sandbox. It looks for bubblewrap on first use.
func New(cfg Config) *Sandbox {
	b := &Sandbox{seatbelt: seatbelt.Native, landlock: kernel.LandlockVersion, home: fspath.Resolve(cfg.Home), userHome: fspath.Resolve(cfg.UserHome), programs: cfg.Programs, swept: map[string]bool{}}
	b.locator = secrets.Locator{Home: b.home, UserHome: b.userHome, KeyFiles: cfg.KeyFiles, MacOS: seatbelt.Native}
	b.guard = quarantine.New(quarantine.Config{Home: b.home, UserHome: b.userHome, Environ: cfg.Environ, Moved: cfg.Moved})
	b.late = latecover.New(func(owner launch.Owner, err error) {
		if cfg.Moved != nil {
			cfg.Moved(owner, nil, err)
		}
	})
	b.helper = sync.OnceValues(func() (string, error) {
		if cfg.Helper != "" {
			return cfg.Helper, nil
		}
		return findHelper()
	})
	return b
}

// Name returns the name for messages.
func (b *Sandbox) Name() string {
	if b.seatbelt {
		return "seatbelt"
	}
	return "bubblewrap"
}

// Modes returns read-only and workspace-write.
func (*Sandbox) Modes() []string { return []string{ReadOnly, WorkspaceWrite} }

// Enforces reports whether a grant needs the sandbox. Full access does if reading something is denied.
func (*Sandbox) Enforces(g launch.Grant) bool {
	return g.Mode == ReadOnly || g.Mode == WorkspaceWrite || g.Mode == launch.Narrow || g.Mode == launch.FullAccess && len(g.DenyRead) > 0
}

// Check returns an error if this system can't enforce a grant.
func (b *Sandbox) Check(g launch.Grant) error {
	if err := kernel.Supported(); err != nil {
		return &launch.UnsupportedError{
			Mode: g.Mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: %v", g.Mode, err),
			Next: `set sandbox { mode = "full-access" } to run without confinement`,
		}
	}
	if g.Mode == launch.Narrow && b.seatbelt {
		return &launch.UnsupportedError{Mode: g.Mode, What: "a process can't get less than its call on macOS yet", Next: "use Linux for this"}
	}
	if _, err := b.helper(); err != nil {
		e := &launch.UnsupportedError{
			Mode: g.Mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: %v", g.Mode, err),
			Next: `install bubblewrap (also the name of its package), or set sandbox { mode = "full-access" } to run without confinement`,
		}
		if g.Mode == launch.Narrow {
			e.What, e.Next = fmt.Sprintf("a process can't get less than its call: %v", err), "install bubblewrap (also the name of its package)"
		}
		if b.seatbelt {
			e.Next = `set sandbox { mode = "full-access" } to run without confinement`
		}
		return e
	}
	return b.checkLandlock(g)
}

// checkLandlock returns an error if Landlock is required and missing.
func (b *Sandbox) checkLandlock(g launch.Grant) error {
	if !g.Landlock || g.Mode == launch.FullAccess || !b.seatbelt && b.landlock() > 0 {
		return nil
	}
	return &launch.UnsupportedError{
		Mode: g.Mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: this system has no Landlock, which sandbox { require_landlock } demands", g.Mode),
		Next: "boot a kernel 5.13 or later with landlock in its `lsm=` parameter, or set sandbox { require_landlock = false }",
	}
}

// plan is the layout of a sandbox before it is made.
type plan struct {
	view
	helper  string
	box     *control.Box // nil on macOS, where it is made with the process
	opened  []string
	found   *autorun.Found      // what is executed later in the roots; nil: there are no roots
	command *quarantine.Command // nil: there is no process yet, or it writes nowhere
	// sealed are the protected paths that are read-only, missing the denied ones that do not exist. Both are checked when the
	// process has ended.
	sealed  map[string]fspath.Identity
	missing []string
}

// PrepareUnconfined deals with what commands have created that other programs would execute, before something runs outside of the sandbox.
// While something is left nothing may run: the error says what it is, and what to do.
func (b *Sandbox) PrepareUnconfined(owner launch.Owner) error { return b.guard.Settle(owner) }

// LockFile returns a descriptor that launchers keep open until their processes have ended, or nil. The caller closes it.
func (b *Sandbox) LockFile() *os.File { return b.guard.HeldFile() }

// Watch starts indexing the roots of a grant before the first command runs, and checks what a killed gantry has left in them.
func (b *Sandbox) Watch(owner launch.Owner, g launch.Grant) error {
	if g.Mode != WorkspaceWrite || kernel.Supported() != nil {
		return nil
	}
	b.late.Expect(b.watched(g))
	roots, _, err := b.rootsNow(owner, g.WritableRoots)
	if err != nil {
		return nil // the first command reports it
	}
	return b.guard.Watch(owner, roots)
}

// CallEnded says that a call has ended. What its remaining processes create is checked as it appears from now on.
func (b *Sandbox) CallEnded(owner launch.Owner) { b.guard.Outlived(owner) }

// Close stops the background work.
func (b *Sandbox) Close() error {
	b.late.Close()
	b.guard.Close()
	return nil
}

// plan lays out the sandbox for a program under a grant. process is the command; nil: it is still to come.
func (b *Sandbox) plan(g launch.Grant, readOnly bool, program string, process *quarantine.Command) (d *plan, err error) {
	if err := b.Check(g); err != nil {
		return nil, err
	}
	if g.Network && g.Proxied {
		return nil, fmt.Errorf("the grant allows both the whole network and the proxy; only one is possible")
	}
	helper, err := b.helper()
	if err != nil {
		return nil, err
	}
	if g.Mode == launch.Narrow {
		return b.planNarrow(g, readOnly, program, helper)
	}
	d = &plan{helper: helper, opened: make([]string, 0, len(g.Opened))}
	begun := d
	defer func() {
		if err != nil && begun.command != nil {
			b.guard.Withdraw(begun.command)
		}
	}()
	// Symbolic links in the place of a root are moved aside first, so that the roots are what the user has named.
	var roots []string
	var known map[string]fspath.Identity
	if g.Mode == WorkspaceWrite && !readOnly {
		var owner launch.Owner
		if process != nil {
			owner, process.GrantRoots = process.Owner, g.WritableRoots
		}
		if roots, known, err = b.rootsNow(owner, g.WritableRoots); err != nil {
			return nil, err
		}
	}
	for _, p := range g.Opened {
		p = fspath.ResolveParent(p)
		if b.home != "" && (p == b.home || fspath.Below(p, b.home)) {
			return nil, fmt.Errorf("%s can't be opened: it is in gantry's own folder, which contains keys and permissions", p)
		}
		d.opened = append(d.opened, p)
	}
	b.sweep(roots)
	v, missing, err := b.view(g, roots, d.opened)
	if err != nil {
		return nil, err
	}
	if !b.seatbelt { // which denies names, existing or not
		d.missing = missing
	}
	if d.sealed, err = b.protect(&v, d.opened); err != nil {
		return nil, err
	}
	if len(roots) > 0 {
		if err := b.enter(d, &v, process); err != nil {
			return nil, err
		}
		if err := b.holdFound(d, &v); err != nil {
			return nil, err
		}
	}
	d.view = v
	// On macOS the profile is written with the process, see confineMacOS.
	if b.seatbelt {
		return d, nil
	}
	if b.programs == nil || !slices.Contains(b.programs(), program) {
		program = ""
	}
	args, err := b.arguments(g, v, program)
	if err != nil {
		return nil, err
	}
	d.box = &control.Box{Helper: helper, Args: args, Filter: kernel.Filter(g.Network, g.Proxied), Listen: g.Proxied}
	if !v.full {
		d.box.KernelReadOnly = root()
		d.box.Handled, d.box.Scoped, d.box.Rules = kernel.LandlockRules(append(slices.Clone(roots), "/tmp"), v.tmp != "")
	}
	if _, root := known["/tmp"]; v.tmp != "" && !root {
		id, _, ok := fspath.Lstat(v.tmp)
		if !ok {
			return nil, fmt.Errorf("the folder for temporary files %s has disappeared; start gantry again", v.tmp)
		}
		known["/tmp"] = id
	}
	// gantry-launch compares the mounted roots with these identities: others may have replaced a root since it was examined.
	for i, r := range d.box.Rules {
		d.box.Rules[i].Dev, d.box.Rules[i].Ino = known[r.Path].Dev, known[r.Path].Ino
	}
	d.box.Covers = v.covers()
	return d, nil
}

// enter finds what is executed later in the roots, for a process that is about to start or is expected.
func (b *Sandbox) enter(d *plan, v *view, process *quarantine.Command) (err error) {
	if process == nil {
		d.found, err = b.guard.Expect(v.roots, d.sealed)
		return err
	}
	process.Roots, process.Opened, process.Sealed, process.Missing, process.Denied = v.roots, d.opened, d.sealed, d.missing, deniedIn(v)
	if d.found, err = b.guard.Enter(process); err == nil {
		d.command = process
	}
	return err
}

// holdFound makes what was found in the roots read-only in a view.
func (b *Sandbox) holdFound(d *plan, v *view) error {
	var links []deny.Entry
	err := deny.ErrMoved
	for n := 0; n < deny.Attempts && errors.Is(err, deny.ErrMoved); n++ {
		if n > 0 {
			if d.found, err = b.guard.Look(v.roots, d.sealed); err != nil {
				return err
			}
		}
		links, v.linkedKeys, err = b.narrowed.Find(v.roots, slices.Concat(v.readOnly, v.partial), d.opened, d.found, b.locator.Inodes)
	}
	if err == nil {
		err = d.found.Err
	}
	if err != nil {
		return err
	}
	v.hold(links...)
	for _, p := range d.found.ReadOnly {
		switch {
		case slices.Contains(v.roots, p) || slices.Contains(v.readOnly, p):
		case !fspath.ContainsOpened(p, d.opened):
			v.readOnly = append(v.readOnly, p)
		case fspath.IsDir(p):
			v.partial = append(v.partial, p)
		}
	}
	if b.seatbelt { // rules apply to names, so nothing is opened by mounts
		v.readOnly = append(v.readOnly, v.partial...)
		return nil
	}
	return v.open(d.opened)
}

// Prepare implements [launch.Preparer].
func (b *Sandbox) Prepare(g launch.Grant, readOnly bool, program string) (*control.Box, error) {
	if b.seatbelt {
		return nil, errors.New("macOS sandboxes can't be prepared before their process")
	}
	d, err := b.plan(g, readOnly, program, nil)
	if err != nil {
		return nil, err
	}
	return d.box, nil
}

// Confine implements [launch.Confiner].
func (b *Sandbox) Confine(_ context.Context, g launch.Grant, readOnly bool, c *launch.Confinement) (release func(), err error) {
	if err := b.guard.Clear(c.Owner); err != nil {
		return nil, err
	}
	program := ""
	if len(c.Argv) > 0 {
		program = c.Argv[0]
	}
	process := &quarantine.Command{Owner: c.Owner, Argv: slices.Clone(c.Argv), End: c.End}
	ready, left := func(func() ([]control.Cover, error)) {}, func() {}
	if !b.seatbelt && c.Hide != nil {
		p := b.late.Enter(c.Owner, process.Name(), c.Hide, b.watched(g)) // before the plan is made, so that nothing is missed in between
		ready, left = p.Ready, func() { b.late.Leave(p) }
	}
	d, err := b.plan(g, readOnly, program, process)
	if err != nil {
		ready(nil)
		left()
		return nil, err
	}
	ready(func() ([]control.Cover, error) { return b.lateCovers(g, d) })
	release = left
	if d.command != nil {
		look := func() map[string]fspath.Identity {
			return autorun.EverydayFiles(d.roots, b.guard.Index.Entered(d.roots))
		}
		later := look()
		release = func() {
			left()
			b.guard.Leave(d.command, func() []Moved { return changedLater(later, look()) })
		}
	}
	if b.seatbelt {
		if err := b.confineMacOS(g, d.view, d.opened, d.helper, c); err != nil {
			release()
			return nil, err
		}
		return release, nil
	}
	c.Box, c.Reusable = d.box, !d.full
	b.environment(g, d.view, c, control.ProxyPort)
	return release, nil
}

// environment adds the variables that tell a process about its sandbox.
func (b *Sandbox) environment(g launch.Grant, v view, c *launch.Confinement, port int) {
	c.Env = append(slices.Clone(c.Env), "GANTRY_SANDBOX="+g.Mode)
	switch {
	case g.Proxied:
		c.Env = append(network.WithoutProxy(c.Env), network.Variables(fmt.Sprintf("127.0.0.1:%d", port))...)
	case !g.Network:
		c.Env = append(c.Env, "GANTRY_SANDBOX_NETWORK_DISABLED=1")
	}
	switch {
	case v.tmp != "" && b.seatbelt:
		c.Env = append(c.Env, "TMPDIR="+fspath.Resolve(v.tmp))
	case v.tmp != "" || v.narrow:
		c.Env = append(c.Env, "TMPDIR=/tmp")
	}
}
