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

// Grant is what a process may do.
type Grant struct {
	Mode          string   `json:"mode"`
	WritableRoots []string `json:"writableRoots,omitempty"` // absolute
	ReadableRoots []string `json:"readableRoots,omitempty"` // absolute; nothing else is read but the system's folders; empty: everything
	Shown         []string `json:"shown,omitempty"`         // files and folders that are read though a box usually hides them; absolute
	DenyRead      []string `json:"denyRead,omitempty"`      // patterns of what is neither read nor written, in every mode; see config/glob
	DenyWrite     []string `json:"denyWrite,omitempty"`     // patterns of what is not written in a writable root of a box
	Opened        []string `json:"opened,omitempty"`        // files that may be written though their name is protected; absolute
	Network       bool     `json:"network,omitempty"`       // all of it
	Proxied       bool     `json:"proxied,omitempty"`       // what the host's proxy lets through; not with Network
	Landlock      bool     `json:"landlock,omitempty"`      // is demanded where the mode is one of a box
	Tmp           string   `json:"tmp,omitempty"`           // the folder that is the process's /tmp; absolute, empty: the machine's
	Env           []string `json:"env,omitempty"`           // K=V; what the grant gives; Spec.Env is what the process gets
	Limits        Limits   `json:"limits,omitzero"`
}

// Digest identifies a grant by its content. The order of roots and variables does not count.
func (g Grant) Digest() string {
	g.WritableRoots = slices.Sorted(slices.Values(g.WritableRoots))
	g.Env = slices.Sorted(slices.Values(g.Env))
	g.Opened = slices.Sorted(slices.Values(g.Opened))
	g.Shown = slices.Sorted(slices.Values(g.Shown))
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
	// Name is for messages.
	Name() string
	// Modes are the sandbox modes that it is for.
	Modes() []string
	// Enforces reports whether a grant is one for it; the first that it is one for is taken.
	Enforces(g Grant) bool
	// Check says whether a grant of one of its modes can be enforced here: nil, or an [UnsupportedError].
	Check(g Grant) error
	// Confine changes the confinement of one process so that the grant holds, or says why it can't. readOnly asks for
	// less than the grant: no writes. release, if not nil, is called once when the tree has ended, or when the start
	// has failed.
	Confine(ctx context.Context, g Grant, readOnly bool, c *Confinement) (release func(), err error)
}

// Keeper is a [Confiner] that answers for what its processes leave to others.
type Keeper interface {
	// Settle is called before a process starts that is not confined. An error means that it must not.
	Settle(Owner) error
	// Watch says that processes of a grant are to come, and for whom.
	Watch(Owner, Grant) error
	// Held is a file that launchers keep open until nothing of their tree is left: others see by it whether processes are left of a host
	// that was killed. The caller closes it. nil: there is none.
	Held() *os.File
	// Outlived says that a call has ended, of which processes may still run.
	Outlived(Owner)
	// Close is called when no process is left.
	Close() error
}

// Confinement is what a confiner may change about a process. Limits are not its concern, they apply to all.
type Confinement struct {
	Owner   Owner    // who it runs for
	Argv    []string // a helper program goes in front
	Env     []string
	Cwd     string
	Rlimits []control.Rlimit // applied between fork and exec
	Box     *control.Box     // made around the process; nil: none
	// Waits: the box may be made before its process is there, and serve another after it.
	Waits bool
	// Launcher is gantry-launch, which has to be executed in the box as well.
	Launcher string
	// End ends the process and all that it has started; it may be called until release.
	End func()
	// Hide lays covers in the process's box as soon as it runs, over what has appeared or was replaced meanwhile. It does nothing once the
	// process has ended.
	Hide func([]control.Cover) error
	// Listener is where the process's way out begins, where that is made outside of the box and not by [control.Box.Listen]. It is
	// closed with the process.
	Listener net.Listener
}

// Unconfined enforces full access: nothing. There are no namespaces under it, so that sudo and the like keep working.
type Unconfined struct{}

// Name returns "none".
func (Unconfined) Name() string { return "none" }

// Modes returns full access alone.
func (Unconfined) Modes() []string { return []string{FullAccess} }

// Enforces takes full access where nothing is denied.
func (Unconfined) Enforces(g Grant) bool { return g.Mode == FullAccess && len(g.DenyRead) == 0 }

// Check has nothing to say.
func (Unconfined) Check(Grant) error { return nil }

// Confine changes nothing.
func (Unconfined) Confine(context.Context, Grant, bool, *Confinement) (func(), error) {
	return nil, nil
}

// UnsupportedError says that a grant can't be enforced here. Nothing was started.
type UnsupportedError struct {
	Mode  string // the sandbox mode, where that is the reason
	Limit string // the limit, where that is
	What  string // what can't be done and why
	Next  string // what to do
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

// notHere says that a system is one on which nothing is started.
func notHere(system string, g Grant) error {
	e := &UnsupportedError{
		Mode: g.Mode, What: fmt.Sprintf("starting processes is not supported on %s", system),
		Next: "run gantry on Linux or macOS",
	}
	if system == "windows" {
		e.What = "starting processes is not supported on Windows"
		e.Next = "run gantry in WSL 2 (`wsl --install`), where all of it works"
	}
	return e
}

// notByRlimit says which limits a system can't enforce that has limits of single processes alone.
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
				Limit: l.name, What: l.what + " can't be enforced on " + system + ", which has none for a command and all that it starts",
				Next: "remove the limit; those on processor time, open files and the size of files are enforced",
			}
		}
	}
	return nil
}

// Check says whether a grant can be enforced here: nil, or an [UnsupportedError]. Nothing is started.
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

// confiner returns the first that enforces the grant's mode.
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
		e.What, e.Next = "what sandbox { deny_read } names can't be kept from commands by this build", "remove it to run them all the same"
	}
	return nil, e
}
