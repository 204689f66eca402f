// Package box confines processes: on Linux with bubblewrap, Landlock and a filter of system calls, on macOS with its own sandbox.
//
// It owns: which mounts, namespaces, rights and system calls a grant's mode means, or which rules, and what
// becomes of that which a process has made and others would execute. It must not know: how a process is started, who asked, what a
// tool is.
//
// Start with [New]; what a mode means stands in [Box.arguments], [rules] and [filter], and in [Box.policy].
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

// Moved is what a command has made that was moved aside, or that should be looked at.
type Moved = quarantine.Moved

// Config is what a box is made with.
type Config struct {
	// Home is gantry's own folder: configuration, keys, threads, sockets. Nothing in a box sees it, but for its plugins.
	Home string
	// UserHome is the user's: where programs keep their keys. Empty: nobody's.
	UserHome string
	// KeyFiles are further files that hold keys: those that the configuration reads them from; absolute. nil: none.
	KeyFiles func() []string
	// Programs are plugins' own, which they have started for what touches files. Where one is what is started, it is seen in
	// its box wherever it lies. nil: none.
	Programs func() []string
	// Environ is the user's environment: where git finds settings, and shells programs.
	Environ []string
	// Helper is bubblewrap's program, or sandbox-exec; empty: found where only root can have put it.
	Helper string
	// Moved hears what the processes of an owner have made and must not have, when it was moved aside; err is about what
	// could not be. It also hears what they have changed that others execute: that stays. nil: nobody does.
	Moved func(owner launch.Owner, moved []Moved, err error)
}

// Sandbox makes boxes. It implements [launch.Confiner].
type Sandbox struct {
	home     string
	userHome string
	locator  secrets.Locator
	programs func() []string
	helper   func() (string, error)
	seatbelt bool // macOS's sandbox
	landlock func() int
	guard    *quarantine.Guard
	narrowed hardlink.Finder
	patterns deny.Finder

	late *latecover.Processes

	mu    sync.Mutex
	swept map[string]bool // roots that were cleared of what older versions left
}

// New returns a maker of boxes. It looks for bubblewrap when the first box is made.
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

// Name is for messages.
func (b *Sandbox) Name() string {
	if b.seatbelt {
		return "seatbelt"
	}
	return "bubblewrap"
}

// Modes are read-only and workspace-write.
func (*Sandbox) Modes() []string { return []string{ReadOnly, WorkspaceWrite} }

// Enforces reports whether a grant is one for a box: full access is, where something is denied all the same.
func (*Sandbox) Enforces(g launch.Grant) bool {
	return g.Mode == ReadOnly || g.Mode == WorkspaceWrite || g.Mode == launch.FullAccess && len(g.DenyRead) > 0
}

// Check says whether boxes can be made here at all.
func (b *Sandbox) Check(g launch.Grant) error {
	if err := kernel.Supported(); err != nil {
		return &launch.UnsupportedError{
			Mode: g.Mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: %v", g.Mode, err),
			Next: `set sandbox { mode = "full-access" } to run without confinement`,
		}
	}
	if _, err := b.helper(); err != nil {
		e := &launch.UnsupportedError{
			Mode: g.Mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: %v", g.Mode, err),
			Next: `install bubblewrap (the package has that name), or set sandbox { mode = "full-access" } to run without confinement`,
		}
		if b.seatbelt {
			e.Next = `set sandbox { mode = "full-access" } to run without confinement`
		}
		return e
	}
	return b.checkLandlock(g)
}

// checkLandlock says whether the second lock is there, where it is demanded.
func (b *Sandbox) checkLandlock(g launch.Grant) error {
	if !g.Landlock || g.Mode == launch.FullAccess || !b.seatbelt && b.landlock() > 0 {
		return nil
	}
	return &launch.UnsupportedError{
		Mode: g.Mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: this system has no Landlock, which sandbox { require_landlock } demands", g.Mode),
		Next: "boot a kernel from 5.13 on with landlock among its `lsm=`, or set sandbox { require_landlock = false }",
	}
}

// plan is a box before it is made.
type plan struct {
	view
	helper  string
	box     *control.Box // nil where the helper is told otherwise
	opened  []string
	found   *autorun.Found      // what in the roots is executed later; nil: there are no roots
	command *quarantine.Command // the process that is in it; nil: there is none, or it writes nowhere
	// What is judged when the process has ended: protected paths that are held, and denied ones that are missing.
	sealed  map[string]fspath.Identity
	missing []string
}

// Settle deals with what commands have made until now that others would execute, before something runs outside of a box. While
// something of it is left, nothing may run: the error says what it is, and what is to be done.
func (b *Sandbox) Settle(owner launch.Owner) error { return b.guard.Settle(owner) }

// Held is what launchers keep open until nothing of their tree is left: a descriptor of its own, which the caller closes. nil: there is none.
func (b *Sandbox) Held() *os.File { return b.guard.HeldFile() }

// Watch begins to look where things lie in the roots of a grant that are executed later, before the first command asks, and deals with
// what commands of a gantry have left that was killed.
func (b *Sandbox) Watch(owner launch.Owner, g launch.Grant) error {
	if g.Mode != WorkspaceWrite || kernel.Supported() != nil {
		return nil
	}
	b.late.Expect(b.watched(g))
	roots, _, err := b.rootsNow(owner, g.WritableRoots)
	if err != nil {
		return nil // the first command says so
	}
	return b.guard.Watch(owner, roots)
}

// Outlived hears that a call has ended; what it has left running is judged from now on whenever something appears.
func (b *Sandbox) Outlived(owner launch.Owner) { b.guard.Outlived(owner) }

// Close ends what happens in the background.
func (b *Sandbox) Close() error {
	b.late.Close()
	b.guard.Close()
	return nil
}

// plan works out the box in which a grant puts a program. process is who it is for; nil: one that is to come.
func (b *Sandbox) plan(g launch.Grant, readOnly bool, program string, process *quarantine.Command) (d *plan, err error) {
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
	d = &plan{helper: helper, opened: make([]string, 0, len(g.Opened))}
	begun := d
	defer func() {
		if err != nil && begun.command != nil {
			b.guard.Withdraw(begun.command)
		}
	}()
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
			return nil, fmt.Errorf("%s can't be opened: it lies in gantry's own folder, which holds keys and what is allowed", p)
		}
		d.opened = append(d.opened, p)
	}
	b.sweep(roots)
	v, missing, err := b.view(g, roots, d.opened)
	if err != nil {
		return nil, err
	}
	if !b.seatbelt { // which denies names
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
	if b.seatbelt {
		return d, nil
	}
	d.box = &control.Box{Helper: helper, Args: b.arguments(g, v), Filter: kernel.Filter(g.Network, g.Proxied), Listen: g.Proxied}
	if b.programs != nil && slices.Contains(b.programs(), program) {
		d.box.Args = append(d.box.Args, "--ro-bind", program, program)
	}
	if !v.full {
		d.box.Kernel = root()
		d.box.Handled, d.box.Scoped, d.box.Rules = kernel.LandlockRules(append(slices.Clone(roots), "/tmp"), v.tmp != "")
	}
	for i, r := range d.box.Rules {
		d.box.Rules[i].Dev, d.box.Rules[i].Ino = known[r.Path].Dev, known[r.Path].Ino
	}
	d.box.Covers = v.covers()
	return d, nil
}

// enter finds what is executed later in the roots of a view, for a process that is about to work there or is to come.
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

// holdFound adds to a view what is kept in its roots for what lies in them.
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
	if b.seatbelt { // which knows files by their names
		v.readOnly = append(v.readOnly, v.partial...)
		return nil
	}
	return v.open(d.opened)
}

// Prepare implements [launch.Preparer].
func (b *Sandbox) Prepare(g launch.Grant, readOnly bool, program string) (*control.Box, error) {
	if b.seatbelt {
		return nil, errors.New("such a box is made with its process")
	}
	d, err := b.plan(g, readOnly, program, nil)
	if err != nil {
		return nil, err
	}
	return d.box, nil
}

// Confine puts a process into a box.
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
		p := b.late.Enter(c.Owner, process.Name(), c.Hide, b.watched(g)) // before it is worked out what is there
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
	c.Box, c.Waits = d.box, !d.full
	b.environment(g, d.view, c, control.ProxyPort)
	return release, nil
}

// environment tells a process what it is in.
func (b *Sandbox) environment(g launch.Grant, v view, c *launch.Confinement, port int) {
	c.Env = append(slices.Clone(c.Env), "GANTRY_SANDBOX="+g.Mode)
	switch {
	case g.Proxied:
		c.Env = append(network.Without(c.Env), network.Variables(fmt.Sprintf("127.0.0.1:%d", port))...)
	case !g.Network:
		c.Env = append(c.Env, "GANTRY_SANDBOX_NETWORK_DISABLED=1")
	}
	switch {
	case v.tmp != "" && b.seatbelt:
		c.Env = append(c.Env, "TMPDIR="+fspath.Resolve(v.tmp))
	case v.tmp != "":
		c.Env = append(c.Env, "TMPDIR=/tmp")
	}
}
