package launch

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/limit"
)

// FullAccess is the sandbox mode without confinement.
const FullAccess = "full-access"

// Narrow is the sandbox mode of a process that gets less than its call, see [Grant.Narrowed]. Configurations don't name it.
const Narrow = "narrow"

// AnyHost is a pattern that matches every host.
const AnyHost = "*"

// Grant is what a process may do.
type Grant struct {
	Mode          string   `json:"mode"`
	WritableRoots []string `json:"writableRoots,omitempty"` // absolute
	ReadableRoots []string `json:"readableRoots,omitempty"` // absolute; only these and the system's folders can be read; empty: everything
	Shown         []string `json:"shown,omitempty"`         // files and folders that sandboxes hide by default but may be read; absolute
	Near          []string `json:"near,omitempty"`          // files and folders of the machine's /tmp that can be read although the process has Tmp; absolute
	DenyRead      []string `json:"denyRead,omitempty"`      // patterns of what can be neither read nor written, in every mode; see config/glob
	DenyWrite     []string `json:"denyWrite,omitempty"`     // patterns of what can't be written in a writable root
	Opened        []string `json:"opened,omitempty"`        // files that may be written although their names are protected; absolute
	Network       bool     `json:"network,omitempty"`       // unrestricted
	Proxied       bool     `json:"proxied,omitempty"`       // only through the host's proxy; not with Network
	Hosts         []string `json:"hosts,omitempty"`         // with Proxied: patterns of the hosts that may be reached; empty: the rules say so
	Quiet         bool     `json:"quiet,omitempty"`         // with Proxied: hosts that no rule names are refused without a question
	Landlock      bool     `json:"landlock,omitempty"`      // required in sandbox modes
	Tmp           string   `json:"tmp,omitempty"`           // the folder that the process sees as /tmp; absolute, empty: the machine's
	Env           []string `json:"env,omitempty"`           // K=V; variables of the grant, to compare grants: Spec.Env is the environment
	Limits        Limits   `json:"limits,omitzero"`
}

// Narrowed returns the grant of a process that sees none of the user's files: only the system's, folders, which it may write, and a /tmp of
// its own. It has a network of its own with the host's proxy. It may create user namespaces, as browsers do to confine their parts. folders
// are absolute and have no symbolic links. What g denies stays denied, and the limits of g apply.
func (g Grant) Narrowed(folders []string) Grant {
	return Grant{
		Mode: Narrow, WritableRoots: folders, DenyRead: g.DenyRead, Proxied: true, Hosts: g.Hosts, Landlock: g.Landlock, Env: g.Env, Limits: g.Limits,
	}
}

// Digest identifies a grant by its content, regardless of the order of its lists.
func (g Grant) Digest() string {
	g.WritableRoots = slices.Sorted(slices.Values(g.WritableRoots))
	g.Env = slices.Sorted(slices.Values(g.Env))
	g.Opened = slices.Sorted(slices.Values(g.Opened))
	g.Shown = slices.Sorted(slices.Values(g.Shown))
	g.Near = slices.Sorted(slices.Values(g.Near))
	g.ReadableRoots = slices.Sorted(slices.Values(g.ReadableRoots))
	g.DenyRead = slices.Sorted(slices.Values(g.DenyRead))
	g.DenyWrite = slices.Sorted(slices.Values(g.DenyWrite))
	b, err := json.Marshal(g)
	if err != nil {
		panic(err) // strings and numbers only
	}
	sum := sha256.Sum256(b)
	return "g1:" + base64.StdEncoding.EncodeToString(sum[:])
}

// Names of limits that end a process.
const (
	LimitMemory = limit.Memory
	LimitPids   = limit.PIDs
	LimitTime   = limit.Time
	LimitFile   = limit.File
)

// Limits bounds a process tree.
type Limits = limit.Set

// Means says what enforces limits on this machine.
type Means = limit.Means

// FindMeans looks for what enforces limits on this machine, as a launcher does.
func FindMeans() Means { return limit.FindMeans() }

// Confiner is a way to enforce grants: namespaces, Landlock, a helper program. A launcher has a list of them.
type Confiner interface {
	// Name returns a name for messages.
	Name() string
	// Modes returns the sandbox modes that it enforces.
	Modes() []string
	// Enforces reports whether it is responsible for a grant. The launcher uses the first confiner that is.
	Enforces(g Grant) bool
	// Check returns an [UnsupportedError] if a grant that it is responsible for can't be enforced on this machine.
	Check(g Grant) error
	// Confine changes the confinement of one process to enforce a grant. readOnly asks for less than the grant: no writes.
	// release, if not nil, is called once, when the tree has ended or the start has failed.
	Confine(ctx context.Context, g Grant, readOnly bool, c *Confinement) (release func(), err error)
}

// Keeper is a [Confiner] that is responsible for what its processes leave behind.
type Keeper interface {
	// PrepareUnconfined is called before an unconfined process starts. The process must not start if it returns an error.
	PrepareUnconfined(Owner) error
	// Watch announces processes with a grant.
	Watch(Owner, Grant) error
	// LockFile returns a file that gantry-launch processes keep open until nothing of their tree is left. It shows other hosts whether
	// a killed host has left processes. The caller closes it. nil: there is none.
	LockFile() *os.File
	// CallEnded is called when a call has ended; its sessions may still run.
	CallEnded(Owner)
	// Close is called when no process is left.
	Close() error
}

// Confinement is what a confiner may change about a process. Limits are independent of it.
type Confinement struct {
	Owner   Owner
	Argv    []string // may be prefixed with a helper program
	Env     []string
	Cwd     string
	Rlimits []control.Rlimit // applied between fork and exec
	Box     *control.Box     // the sandbox that gantry-launch creates around the process; nil: none
	// Reusable: the sandbox may be created before there is a process for it, and be reused by another.
	Reusable bool
	// Launcher is the path of gantry-launch, which has to be executable in the sandbox.
	Launcher string
	// End ends the process tree. It may be called until release.
	End func()
	// Hide hides files in the process's sandbox that have appeared or were replaced since it was created, as soon as the process
	// runs. It does nothing once the process has ended.
	Hide func([]control.Cover) error
	// Listener receives the connections for the proxy, if it is outside of the sandbox and not created by [control.Box.Listen].
	// It is closed with the process.
	Listener net.Listener
}

// Unconfined enforces full access, that is nothing. It uses no namespaces, so that programs such as sudo work.
type Unconfined struct{}

// Name returns "none".
func (Unconfined) Name() string { return "none" }

// Modes returns full access.
func (Unconfined) Modes() []string { return []string{FullAccess} }

// Enforces accepts full access, unless files are denied.
func (Unconfined) Enforces(g Grant) bool { return g.Mode == FullAccess && len(g.DenyRead) == 0 }

// Check returns nil.
func (Unconfined) Check(Grant) error { return nil }

// Confine changes nothing.
func (Unconfined) Confine(context.Context, Grant, bool, *Confinement) (func(), error) {
	return nil, nil
}

// UnsupportedError says that a grant can't be enforced on this machine. Nothing was started.
type UnsupportedError struct {
	Mode  string // the sandbox mode, if that is the reason
	Limit string // the limit, if that is the reason
	What  string // what can't be enforced, and why
	Next  string // the next step
}

// Error says what can't be enforced, and the next step.
func (e *UnsupportedError) Error() string { return e.What + "; " + e.Next }

// enforceable reports whether processes can be started, and their limits be enforced, on a system.
func enforceable(system string, g Grant) error {
	switch system {
	case "linux":
		return nil
	case "darwin":
		return notByRlimit("macOS", g.Limits)
	}
	return notHere(system, g)
}

// notHere returns the error of a system on which no processes can be started.
func notHere(system string, g Grant) error {
	e := &UnsupportedError{
		Mode: g.Mode, What: fmt.Sprintf("starting processes is not supported on %s", system),
		Next: "run gantry on Linux or macOS",
	}
	if system == "windows" {
		e.What = "starting processes is not supported on Windows"
		e.Next = "run gantry in WSL 2 (`wsl --install`), where everything works"
	}
	return e
}

// notByRlimit returns an error for limits of a whole tree, on a system that only limits single processes.
func notByRlimit(system string, lim Limits) error {
	for _, l := range []struct {
		asked      bool
		name, what string
	}{
		{lim.MemoryBytes > 0, "memory", "the limit on memory"},
		{lim.AddressSpaceBytes > 0, "address space", "the limit on address space"},
		{lim.MaxPids > 0, "pids", "the limit on processes"},
	} {
		if l.asked {
			return &UnsupportedError{
				Limit: l.name, What: l.what + " can't be enforced on " + system + ", which can't limit a command together with its descendants",
				Next: "remove the limit; limits on processor time, open files and file sizes are enforced",
			}
		}
	}
	return nil
}

// Check returns an [UnsupportedError] if a grant can't be enforced on this machine. It starts nothing.
func (l *Launcher) Check(g Grant) error {
	c, err := l.confiner(g)
	if err != nil {
		return err
	}
	if err := c.Check(g); err != nil {
		return err
	}
	return enforceable(runtime.GOOS, g)
}

// confiner returns the first confiner that is responsible for a grant.
func (l *Launcher) confiner(g Grant) (Confiner, error) {
	if err := g.Limits.Check(); err != nil {
		return nil, err
	}
	var modes []string
	for _, c := range l.cfg.Confiners {
		if c.Enforces(g) {
			return c, nil
		}
		modes = append(modes, c.Modes()...)
	}
	e := &UnsupportedError{
		Mode: g.Mode,
		What: fmt.Sprintf("sandbox mode %q can't be enforced by this build, which knows %s", g.Mode, strings.Join(modes, ", ")),
		Next: fmt.Sprintf("set sandbox { mode = %q } to run without confinement", FullAccess),
	}
	switch {
	case g.Mode == "":
		e.What = "the grant names no sandbox mode"
	case g.Mode == FullAccess:
		e.What, e.Next = "this build can't enforce sandbox { deny_read }", "remove it to run commands without it"
	}
	return nil, e
}
